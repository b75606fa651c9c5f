-- The live ingests, by heartbeat: partitions of the log are distributed among them.
CREATE TABLE ingest.member (
  owner text PRIMARY KEY,
  -- The LOG_PARTITIONS that it runs with.
  partitions integer NOT NULL,
  joined_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

-- When a record was last found in another partition than its id belongs to, which happens while LOG_PARTITIONS changes.
CREATE TABLE ingest.stray (
  is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one),
  seen_at timestamptz NOT NULL
);
