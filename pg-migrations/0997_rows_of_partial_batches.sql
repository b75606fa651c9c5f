-- The ledger counts the rows of a partial batch at once. If a restore of ClickHouse takes some before their frames are committed,
-- the batch that stores them with their frames takes them back: each row is counted once.
ALTER TABLE ingest.batch
  -- Of a partial batch: its rows by frame.
  ADD COLUMN stored jsonb NOT NULL DEFAULT '[]',
  -- Rows that partial batches had of its frames, and that were gone when it was formed, as lines of the ledger.
  ADD COLUMN gone jsonb NOT NULL DEFAULT '[]';
