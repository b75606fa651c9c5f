-- One row per event as an app sent it, with the link its install came from. Amounts are decimals: they add up exactly.
CREATE TABLE IF NOT EXISTS events ${on_cluster} (
  event_id String,
  organization_id String,
  app_id String,
  name String,
  time DateTime64(3, 'UTC'),
  received_at DateTime64(3, 'UTC'),
  install_id String,
  device_id String,
  user_id String,
  session_id String,
  link_id String,
  click_id String,
  platform String,
  country String,
  campaign String,
  utm_source String,
  utm_medium String,
  utm_campaign String,
  utm_term String,
  utm_content String,
  revenue_amount Nullable(Decimal(38, 9)),
  revenue_currency String,
  is_conversion Bool,
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

CREATE TABLE IF NOT EXISTS events_by_link ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  link_id String,
  campaign LowCardinality(String),
  revenue_currency LowCardinality(String),
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64),
  conversions SimpleAggregateFunction(sum, UInt64),
  revenue SimpleAggregateFunction(sum, Decimal(38, 9))
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, revenue_currency)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS events_by_link_view ${on_cluster} TO events_by_link AS
SELECT
  organization_id,
  app_id,
  link_id,
  campaign,
  revenue_currency,
  toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
  count() AS rows,
  sum(toUInt64(is_conversion)) AS conversions,
  sum(ifNull(revenue_amount, 0)) AS revenue
FROM events
GROUP BY organization_id, app_id, link_id, campaign, revenue_currency, bucket;

CREATE TABLE IF NOT EXISTS events_by_dimension ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  dimension LowCardinality(String),
  value LowCardinality(String),
  revenue_currency LowCardinality(String),
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64),
  conversions SimpleAggregateFunction(sum, UInt64),
  revenue SimpleAggregateFunction(sum, Decimal(38, 9))
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, dimension, app_id, bucket, value, revenue_currency)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS events_by_dimension_view ${on_cluster} TO events_by_dimension AS
SELECT
  organization_id,
  app_id,
  cell.1 AS dimension,
  cell.2 AS value,
  revenue_currency,
  cell.3 AS bucket,
  count() AS rows,
  sum(toUInt64(is_conversion)) AS conversions,
  sum(ifNull(revenue_amount, 0)) AS revenue
FROM events
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, revenue_currency, bucket;
