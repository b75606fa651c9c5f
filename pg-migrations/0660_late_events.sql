-- Up to which batch of each partition of the log installs were processed for the events of a partition that arrived
-- before them. It may go back: processing an install again changes nothing.
CREATE TABLE ingest.late_cursor (
  partition integer PRIMARY KEY,
  cursors jsonb NOT NULL
);
