-- The last number of a partition is stored even if its lease is given up: numbers never start over.
CREATE TABLE ingest.last_batch (
  partition integer PRIMARY KEY,
  last_batch_no bigint NOT NULL
);
INSERT INTO ingest.last_batch SELECT partition, last_batch_no FROM ingest.lease WHERE last_batch_no > 0;
ALTER TABLE ingest.lease DROP COLUMN last_batch_no;

-- Since when batches have numbers (epoch ms); 0 if all have one. What was stored before can't be replayed.
CREATE TABLE ingest.numbering (since_ms bigint NOT NULL);
INSERT INTO ingest.numbering
SELECT CASE WHEN EXISTS (SELECT FROM ingest.mark) THEN (extract(epoch FROM now()) * 1000)::bigint ELSE 0 END;

-- An operator's request to the owners of partitions: to read the log again from a given time and store what is missing,
-- and to check the rollups of days against their raw rows. Deleted by the command that made it.
CREATE TABLE ingest.revision (
  partition integer PRIMARY KEY,
  -- Epoch ms; null: nothing is read again.
  replay_from bigint,
  -- UTC midnights, epoch ms, the last one excluded; null: the days that the replay finds.
  days_from bigint,
  days_to bigint,
  rows_stored bigint NOT NULL DEFAULT 0,
  cells_corrected bigint NOT NULL DEFAULT 0,
  requested_at timestamptz NOT NULL DEFAULT now(),
  done_at timestamptz
);
