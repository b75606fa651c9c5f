-- Ingest's view of the record path: who owns a partition, what is committed, and what is being inserted.
CREATE SCHEMA ingest;

-- One owner per partition. Every write of ingest checks the epoch, so an owner that was paused beyond its lease writes
-- nothing.
CREATE TABLE ingest.lease (
  partition integer PRIMARY KEY,
  owner text NOT NULL,
  epoch bigint NOT NULL,
  expires_at timestamptz NOT NULL
);

-- Stream time (epoch ms) up to which every message of the partition was read and committed.
CREATE TABLE ingest.checkpoint (
  partition integer PRIMARY KEY,
  stream_time bigint NOT NULL
);

-- Committed frames of a producer's lane: all up to mark, and ranges [[from, to], …] ahead of it.
CREATE TABLE ingest.mark (
  producer_id text NOT NULL,
  kind text NOT NULL,
  partition integer NOT NULL,
  mark bigint NOT NULL,
  ahead jsonb NOT NULL DEFAULT '[]',
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (partition, kind, producer_id)
);

-- A batch that may be on its way into ClickHouse. Written before the insert, deleted in the transaction that moves the
-- marks.
CREATE TABLE ingest.batch (
  batch_id text PRIMARY KEY,
  partition integer NOT NULL,
  epoch bigint NOT NULL,
  -- [{producer_id, kind, from, to}, …] in the order in which they became rows.
  frames jsonb NOT NULL,
  -- [{table, partition, rows, sha256, token, time_from, time_to}, …]
  parts jsonb NOT NULL,
  -- The run of ClickHouse it was made for.
  boot_id text NOT NULL,
  stream_time bigint NOT NULL,
  -- It is not being inserted now: its rows are being looked up.
  is_suspect boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX batch_partition ON ingest.batch (partition);

-- A ClickHouse partition whose rollups are being compared and rebuilt: no other batch may begin to insert into it.
CREATE TABLE ingest.repair (
  clickhouse_partition text PRIMARY KEY,
  partition integer NOT NULL,
  epoch bigint NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now()
);

-- One salt per UTC day (days since 1970) for the numbers of visitors; without it they cannot be traced to a person.
CREATE TABLE ingest.visitor_salt (
  day integer PRIMARY KEY,
  salt text NOT NULL
);

-- Up to when the statistics include everything that was answered on a machine (epoch ms).
CREATE TABLE ingest.progress (
  machine text PRIMARY KEY,
  committed_to bigint NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);
