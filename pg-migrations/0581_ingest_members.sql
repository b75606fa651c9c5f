-- The ingests that live, by heartbeat: partitions of the log are shared out among them.
CREATE TABLE ingest.member (
  owner text PRIMARY KEY,
  -- LOG_PARTITIONS as it runs with it.
  partitions integer NOT NULL,
  joined_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

-- When a record was last met in another partition than its id belongs to, which happens while LOG_PARTITIONS changes.
CREATE TABLE ingest.stray (
  is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one),
  seen_at timestamptz NOT NULL
);
