-- Up to which batch of each partition of the log installs were looked at for the events of a partition that came before them. It may go
-- back: what was found is not found again.
CREATE TABLE ingest.late_cursor (
  partition integer PRIMARY KEY,
  cursors jsonb NOT NULL
);
