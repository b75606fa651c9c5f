-- How many of the installs of a quarter of an hour were active at each age in days. `day` is the UTC day on which the quarter reaches that
-- age. Rows with is_whole are about a whole app, the others about its links, campaigns, platforms and countries. Ages below 0 have other
-- meanings: clickhouse/active-installs.ts. No view fills the table: ingest compares it with the records from time to time, and adds what differs.
CREATE TABLE IF NOT EXISTS active_installs ${on_cluster} (
  organization_id LowCardinality(String),
  is_whole Bool,
  age Int16,
  app_id LowCardinality(String),
  cohort DateTime('UTC'),
  link_id String,
  campaign LowCardinality(String),
  platform LowCardinality(String),
  country LowCardinality(String),
  day Date,
  installs SimpleAggregateFunction(sum, Int64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(day)
PRIMARY KEY (organization_id, is_whole, age, app_id, cohort)
ORDER BY (organization_id, is_whole, age, app_id, cohort, link_id, campaign, platform, country, day)
TTL addDays(day, 40) + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024;

-- Up to when the rows of an organization were compared with its records. An organization with few events has no row.
CREATE TABLE IF NOT EXISTS active_installs_compared ${on_cluster} (
  organization_id String,
  as_of SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = ${AggregatingMergeTree}
ORDER BY organization_id
SETTINGS ${once_and_kept};
