-- Quarters of an hour, so that the days of every time zone add up. Each kind of record has a view of its own into this
-- table and fills only its own columns; `rows` counts the rows of all kinds, bots too, and is what the audit compares.
CREATE TABLE IF NOT EXISTS figures_by_link ${on_cluster} (
  organization_id LowCardinality(String),
  app_id LowCardinality(String),
  link_id LowCardinality(String),
  campaign LowCardinality(String),
  bucket DateTime('UTC'),
  rows SimpleAggregateFunction(sum, UInt64),
  clicks SimpleAggregateFunction(sum, UInt64),
  bot_clicks SimpleAggregateFunction(sum, UInt64),
  unique_clicks AggregateFunction(uniq, UInt64)
)
ENGINE = ${AggregatingMergeTree}
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, app_id, link_id, campaign, bucket)
SETTINGS ${once_and_kept};

-- uniqStateIf and not uniqIfState: the state of the latter is of another type than the column.
CREATE MATERIALIZED VIEW IF NOT EXISTS figures_by_link_from_clicks ${on_cluster} TO figures_by_link AS
SELECT
  organization_id,
  app_id,
  link_id,
  campaign,
  toStartOfInterval(time, INTERVAL 15 MINUTE, 'UTC') AS bucket,
  count() AS rows,
  countIf(NOT is_bot) AS clicks,
  countIf(is_bot) AS bot_clicks,
  uniqStateIf(visitor, NOT is_bot) AS unique_clicks
FROM clicks
GROUP BY organization_id, app_id, link_id, campaign, bucket;
