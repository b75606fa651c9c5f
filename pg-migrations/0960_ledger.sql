-- What ingest has stored in ClickHouse, for the audit: rows that vanish there are missing from no other figure. Written in
-- the transactions that decide a batch. A line is deleted when retention has removed its rows.
CREATE TABLE ingest.ledger (
  -- Of the log.
  partition integer NOT NULL,
  -- The number of the batch / 86,400,000: about the day on which it was stored.
  batch_day integer NOT NULL,
  raw_table text NOT NULL,
  -- ClickHouse's partition, YYYYMM.
  month text NOT NULL,
  rows bigint NOT NULL,
  -- Of these, the rows that a replay stored again.
  rows_again bigint NOT NULL,
  batch_from bigint NOT NULL,
  batch_to bigint NOT NULL,
  -- Times of its records, epoch ms.
  time_from bigint NOT NULL,
  time_to bigint NOT NULL,
  PRIMARY KEY (partition, batch_day, raw_table, month)
);

-- Its frames were committed before: a replay stores what ClickHouse has lost.
ALTER TABLE ingest.batch ADD COLUMN is_again boolean NOT NULL DEFAULT false;
