-- Batches have numbers that only grow, and ClickHouse is queried for the outcome of each. Nothing is repaired under a
-- lock any more.
ALTER TABLE ingest.lease ADD COLUMN last_batch_no bigint NOT NULL DEFAULT 0;

ALTER TABLE ingest.batch
  DROP CONSTRAINT batch_pkey,
  -- 0: from the previous version, which identified its batches by batch_id and runs of ClickHouse by boot_id.
  ADD COLUMN batch_no bigint NOT NULL DEFAULT 0,
  -- It was looked up: its stored rows stay, and its frames are sent again for the rest.
  ADD COLUMN is_partial boolean NOT NULL DEFAULT false,
  ALTER COLUMN batch_id SET DEFAULT '',
  ALTER COLUMN boot_id SET DEFAULT '',
  DROP COLUMN is_suspect;
CREATE UNIQUE INDEX batch_number ON ingest.batch (partition, batch_no) WHERE batch_no > 0;

DROP TABLE ingest.repair;
