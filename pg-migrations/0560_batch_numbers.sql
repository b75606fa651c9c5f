-- Batches have numbers that only grow, and what became of one is asked of ClickHouse. Nothing is repaired under a lock any more.
ALTER TABLE ingest.lease ADD COLUMN last_batch_no bigint NOT NULL DEFAULT 0;

ALTER TABLE ingest.batch
  DROP CONSTRAINT batch_pkey,
  -- 0: of the version before, which named its batches by batch_id and told runs of ClickHouse apart by boot_id.
  ADD COLUMN batch_no bigint NOT NULL DEFAULT 0,
  -- It was looked for: what is there of it stays, and its frames come again for the rest.
  ADD COLUMN is_partial boolean NOT NULL DEFAULT false,
  ALTER COLUMN batch_id SET DEFAULT '',
  ALTER COLUMN boot_id SET DEFAULT '',
  DROP COLUMN is_suspect;
CREATE UNIQUE INDEX batch_number ON ingest.batch (partition, batch_no) WHERE batch_no > 0;

DROP TABLE ingest.repair;
