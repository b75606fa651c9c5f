-- What clicks add up to. By link and campaign a row for each UTC day; by dimension a row for each quarter of an hour of an
-- app (dimension 'quarter', so that the days of every time zone add up) and for each UTC day ('day', and by the value of
-- platform, country and campaign). Finer ones were measured to have about as many rows as there are clicks.
-- `rows` counts raw rows, bots too, and is what the audit compares. A visitor is counted by (app, UTC day) at most once.
CREATE TABLE IF NOT EXISTS clicks_by_link ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  link_id String,
  campaign LowCardinality(String),
  is_bot Bool,
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64),
  visitors AggregateFunction(uniqCombined(15), UInt64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, is_bot)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS clicks_by_link_view ${on_cluster} TO clicks_by_link AS
SELECT
  organization_id,
  app_id,
  link_id,
  campaign,
  is_bot,
  toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
  count() AS rows,
  uniqCombinedState(15)(visitor) AS visitors
FROM clicks
GROUP BY organization_id, app_id, link_id, campaign, is_bot, bucket;

CREATE TABLE IF NOT EXISTS clicks_by_dimension ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  dimension LowCardinality(String),
  value LowCardinality(String),
  is_bot Bool,
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64),
  visitors AggregateFunction(uniqCombined(15), UInt64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, dimension, app_id, bucket, value, is_bot)
TTL bucket + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW IF NOT EXISTS clicks_by_dimension_view ${on_cluster} TO clicks_by_dimension AS
SELECT
  organization_id,
  app_id,
  cell.1 AS dimension,
  cell.2 AS value,
  is_bot,
  cell.3 AS bucket,
  count() AS rows,
  uniqCombinedState(15)(visitor) AS visitors
FROM clicks
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, is_bot, bucket;
