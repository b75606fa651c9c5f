-- The schema of ClickHouse after all migrations. Written by `npm run generate`; not run by anything.

CREATE TABLE boots
(
    `id` UUID,
    `made_at` DateTime64(9, 'UTC')
)
ENGINE = Memory;

CREATE TABLE clicks
(
    `click_id` String,
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `time` DateTime64(3, 'UTC'),
    `ip` String,
    `user_agent` String,
    `platform` String,
    `os` String,
    `os_version` String,
    `browser` String,
    `device_model` String,
    `language` String,
    `country` String,
    `referrer_host` String,
    `campaign` String,
    `utm_source` String,
    `utm_medium` String,
    `utm_campaign` String,
    `utm_term` String,
    `utm_content` String,
    `query` String,
    `trigger` String,
    `is_bot` Bool,
    `bot_reason` String,
    `visitor` UInt64,
    `batch_id` String,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, link_id, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, min_parts_to_merge_at_once = 8, index_granularity = 8192;

CREATE TABLE dead_letters
(
    `kind` String,
    `reason` String,
    `time` DateTime64(3, 'UTC'),
    `record` String,
    `batch_id` String,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (kind, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 8192;

CREATE TABLE figures_by_link
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `link_id` LowCardinality(String),
    `campaign` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `clicks` SimpleAggregateFunction(sum, UInt64),
    `bot_clicks` SimpleAggregateFunction(sum, UInt64),
    `unique_clicks` AggregateFunction(uniq, UInt64)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
ORDER BY (organization_id, app_id, link_id, campaign, bucket)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, index_granularity = 8192;

CREATE MATERIALIZED VIEW figures_by_link_from_clicks TO figures_by_link
(
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `campaign` String,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `clicks` UInt64,
    `bot_clicks` UInt64,
    `unique_clicks` AggregateFunction(uniq, UInt64)
)
AS SELECT
    organization_id,
    app_id,
    link_id,
    campaign,
    toStartOfInterval(time, toIntervalMinute(15), 'UTC') AS bucket,
    count() AS rows,
    countIf(NOT is_bot) AS clicks,
    countIf(is_bot) AS bot_clicks,
    uniqStateIf(visitor, NOT is_bot) AS unique_clicks
FROM clicks
GROUP BY
    organization_id,
    app_id,
    link_id,
    campaign,
    bucket;
