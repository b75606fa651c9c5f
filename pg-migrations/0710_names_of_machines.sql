-- Names of running ingests: another process with the same name would take their leases. `run` is one run of a process,
-- `place` is where process ids are comparable (a host and its pid namespace), `beats` increases while it lives.
CREATE TABLE ingest.name (
  name text PRIMARY KEY,
  run text NOT NULL,
  place text NOT NULL,
  pid integer NOT NULL,
  beats bigint NOT NULL DEFAULT 0,
  beat_at timestamptz NOT NULL DEFAULT now()
);

-- Which journals report under a machine's name: two machines of one name would hide each other's backlog from as_of.
ALTER TABLE ingest.progress ADD COLUMN holder text NOT NULL DEFAULT '';
