-- One row per installation, organic ones (attributed = false, no link) too.
CREATE TABLE IF NOT EXISTS installs ${on_cluster} (
  install_id String,
  organization_id String,
  app_id String,
  link_id String,
  click_id String,
  time DateTime64(3, 'UTC'),
  installed_at DateTime64(3, 'UTC'),
  device_id String,
  user_id String,
  match_id String,
  match_type String,
  match_guaranteed Bool,
  confidence Float64,
  attributed Bool,
  platform String,
  os String,
  os_version String,
  device_model String,
  app_version String,
  sdk_name String,
  sdk_version String,
  language String,
  country String,
  ip String,
  campaign String,
  utm_source String,
  utm_medium String,
  utm_campaign String,
  utm_term String,
  utm_content String,
  properties String,
  batch_id String,
  producer_id String,
  frame_no UInt64,
  idx UInt32
)
ENGINE = ${MergeTree}
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, toDate(time), link_id, time)
TTL toDateTime(time) + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE TABLE IF NOT EXISTS installs_by_link ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  link_id String,
  campaign LowCardinality(String),
  attributed Bool,
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, attributed)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS installs_by_link_view ${on_cluster} TO installs_by_link AS
SELECT
  organization_id,
  app_id,
  link_id,
  campaign,
  attributed,
  toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
  count() AS rows
FROM installs
GROUP BY organization_id, app_id, link_id, campaign, attributed, bucket;

CREATE TABLE IF NOT EXISTS installs_by_dimension ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  dimension LowCardinality(String),
  value LowCardinality(String),
  attributed Bool,
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, dimension, app_id, bucket, value, attributed)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS installs_by_dimension_view ${on_cluster} TO installs_by_dimension AS
SELECT
  organization_id,
  app_id,
  cell.1 AS dimension,
  cell.2 AS value,
  attributed,
  cell.3 AS bucket,
  count() AS rows
FROM installs
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, attributed, bucket;
