-- The schema of ClickHouse after all migrations. Written by `npm run generate`; not run by anything.

CREATE TABLE active_installs
(
    `organization_id` LowCardinality(String),
    `is_whole` Bool,
    `age` Int16,
    `app_id` LowCardinality(String),
    `cohort` DateTime('UTC'),
    `link_id` String,
    `campaign` LowCardinality(String),
    `platform` LowCardinality(String),
    `country` LowCardinality(String),
    `day` Date,
    `installs` SimpleAggregateFunction(sum, Int64),
    `currency` LowCardinality(String),
    `revenue` SimpleAggregateFunction(sum, Decimal(38, 9))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(day)
PRIMARY KEY (organization_id, is_whole, age, app_id, cohort)
ORDER BY (organization_id, is_whole, age, app_id, cohort, link_id, campaign, platform, country, day, currency)
TTL addDays(day, 40) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE active_installs_compared
(
    `organization_id` String,
    `as_of` SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    `revenue_as_of` SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY organization_id
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, index_granularity = 8192;

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
    `region` LowCardinality(String) DEFAULT '',
    `city` LowCardinality(String) DEFAULT '',
    `referrer_host` String,
    `campaign` String,
    `utm_source` String,
    `utm_medium` String,
    `utm_campaign` String,
    `utm_term` String,
    `utm_content` String,
    `query` String,
    `trigger` String,
    `rule` LowCardinality(String) DEFAULT '',
    `is_bot` Bool,
    `bot_reason` String,
    `visitor` UInt64,
    `batch_id` String,
    `log_partition` UInt16,
    `batch_no` UInt64,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32,
    `click_key` UInt64 MATERIALIZED if(click_id = '', 0, cityHash64(click_id)),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
    INDEX times time TYPE minmax GRANULARITY 1,
    INDEX click_ids click_id TYPE bloom_filter(0.01) GRANULARITY 1,
    CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, toDate(time), link_id, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE TABLE clicks_by_dimension
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `dimension` LowCardinality(String),
    `value` LowCardinality(String),
    `is_bot` Bool,
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `visitors` AggregateFunction(uniqCombined(15), UInt64),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, dimension, app_id, bucket, value, is_bot)
ORDER BY (organization_id, dimension, app_id, bucket, value, is_bot, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW clicks_by_dimension_view TO clicks_by_dimension
(
    `organization_id` String,
    `app_id` String,
    `dimension` String,
    `value` String,
    `is_bot` Bool,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `visitors` AggregateFunction(uniqCombined(15), UInt64),
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    cell.1 AS dimension,
    cell.2 AS value,
    is_bot,
    log_partition,
    cell.3 AS bucket,
    count() AS rows,
    uniqCombinedState(15)(visitor) AS visitors,
    max(batch_no) AS batch_no
FROM clicks
ARRAY JOIN [('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))), ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))] AS cell
GROUP BY
    organization_id,
    app_id,
    dimension,
    value,
    is_bot,
    log_partition,
    bucket;

CREATE TABLE clicks_by_link
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `link_id` String,
    `campaign` LowCardinality(String),
    `is_bot` Bool,
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `visitors` AggregateFunction(uniqCombined(15), UInt64),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, app_id, link_id, campaign, bucket, is_bot)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, is_bot, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW clicks_by_link_view TO clicks_by_link
(
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `campaign` String,
    `is_bot` Bool,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `visitors` AggregateFunction(uniqCombined(15), UInt64),
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    link_id,
    campaign,
    is_bot,
    log_partition,
    toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
    count() AS rows,
    uniqCombinedState(15)(visitor) AS visitors,
    max(batch_no) AS batch_no
FROM clicks
GROUP BY
    organization_id,
    app_id,
    link_id,
    campaign,
    is_bot,
    log_partition,
    bucket;

CREATE TABLE dead_letters
(
    `kind` String,
    `reason` String,
    `time` DateTime64(3, 'UTC'),
    `record` String,
    `batch_id` String,
    `log_partition` UInt16,
    `batch_no` UInt64,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32,
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
    CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (kind, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 8192;

CREATE TABLE events
(
    `event_id` String,
    `organization_id` String,
    `app_id` String,
    `name` String,
    `time` DateTime64(3, 'UTC'),
    `received_at` DateTime64(3, 'UTC'),
    `install_id` String,
    `device_id` String,
    `user_id` String,
    `session_id` String,
    `link_id` String,
    `click_id` String,
    `platform` String,
    `country` String,
    `region` LowCardinality(String) DEFAULT '',
    `city` LowCardinality(String) DEFAULT '',
    `campaign` String,
    `utm_source` String,
    `utm_medium` String,
    `utm_campaign` String,
    `utm_term` String,
    `utm_content` String,
    `revenue_amount` Nullable(Decimal(38, 9)),
    `revenue_currency` String,
    `is_conversion` Bool,
    `properties` String,
    `waiting_keys` Array(String),
    `batch_id` String,
    `log_partition` UInt16,
    `batch_no` UInt64,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32,
    `sign` Int8 DEFAULT 1,
    `is_learned` Bool DEFAULT false,
    `device_key` UInt64 MATERIALIZED if(install_id = '', 0, cityHash64(app_id, install_id)),
    INDEX event_ids event_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
    INDEX waiting waiting_keys TYPE bloom_filter(0.001) GRANULARITY 1,
    CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, toDate(time), link_id, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE TABLE events_by_dimension
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `dimension` LowCardinality(String),
    `value` LowCardinality(String),
    `revenue_currency` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `conversions` SimpleAggregateFunction(sum, UInt64),
    `revenue` SimpleAggregateFunction(sum, Decimal(38, 9)),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, dimension, app_id, bucket, value, revenue_currency)
ORDER BY (organization_id, dimension, app_id, bucket, value, revenue_currency, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW events_by_dimension_view TO events_by_dimension
(
    `organization_id` String,
    `app_id` String,
    `dimension` String,
    `value` String,
    `revenue_currency` String,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `conversions` UInt64,
    `revenue` Decimal(38, 9),
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    cell.1 AS dimension,
    cell.2 AS value,
    revenue_currency,
    log_partition,
    cell.3 AS bucket,
    toUInt64(sum(sign)) AS rows,
    toUInt64(sumIf(sign, is_conversion)) AS conversions,
    sum(ifNull(revenue_amount, 0) * sign) AS revenue,
    max(batch_no) AS batch_no
FROM events
ARRAY JOIN [('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))), ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))] AS cell
GROUP BY
    organization_id,
    app_id,
    dimension,
    value,
    revenue_currency,
    log_partition,
    bucket;

CREATE TABLE events_by_link
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `link_id` String,
    `campaign` LowCardinality(String),
    `revenue_currency` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `conversions` SimpleAggregateFunction(sum, UInt64),
    `revenue` SimpleAggregateFunction(sum, Decimal(38, 9)),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, app_id, link_id, campaign, bucket, revenue_currency)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, revenue_currency, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW events_by_link_view TO events_by_link
(
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `campaign` String,
    `revenue_currency` String,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `conversions` UInt64,
    `revenue` Decimal(38, 9),
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    link_id,
    campaign,
    revenue_currency,
    log_partition,
    toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
    toUInt64(sum(sign)) AS rows,
    toUInt64(sumIf(sign, is_conversion)) AS conversions,
    sum(ifNull(revenue_amount, 0) * sign) AS revenue,
    max(batch_no) AS batch_no
FROM events
GROUP BY
    organization_id,
    app_id,
    link_id,
    campaign,
    revenue_currency,
    log_partition,
    bucket;

CREATE TABLE fences
(
    `log_partition` UInt16,
    `batch_no_min` UInt64,
    `owner` String
)
ENGINE = Join(ANY, LEFT, log_partition)
SETTINGS join_any_take_last_row = 1;

CREATE TABLE installs
(
    `install_id` String,
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `click_id` String,
    `time` DateTime64(3, 'UTC'),
    `installed_at` DateTime64(3, 'UTC'),
    `device_id` String,
    `user_id` String,
    `match_id` String,
    `match_type` String,
    `match_guaranteed` Bool,
    `confidence` Float64,
    `attributed` Bool,
    `trigger` String DEFAULT 'install',
    `platform` String,
    `os` String,
    `os_version` String,
    `device_model` String,
    `app_version` String,
    `sdk_name` String,
    `sdk_version` String,
    `language` String,
    `country` String,
    `region` LowCardinality(String) DEFAULT '',
    `city` LowCardinality(String) DEFAULT '',
    `ip` String,
    `campaign` String,
    `utm_source` String,
    `utm_medium` String,
    `utm_campaign` String,
    `utm_term` String,
    `utm_content` String,
    `properties` String,
    `batch_id` String,
    `log_partition` UInt16,
    `batch_no` UInt64,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32,
    INDEX install_ids install_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX device_ids device_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX click_ids click_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
    CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, toDate(time), link_id, time)
TTL toDateTime(time) + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE TABLE installs_by_dimension
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `dimension` LowCardinality(String),
    `value` LowCardinality(String),
    `attributed` Bool,
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `reinstalls` SimpleAggregateFunction(sum, UInt64),
    `opens` SimpleAggregateFunction(sum, UInt64),
    `reengagements` SimpleAggregateFunction(sum, UInt64),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, dimension, app_id, bucket, value, attributed)
ORDER BY (organization_id, dimension, app_id, bucket, value, attributed, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 256, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW installs_by_dimension_view TO installs_by_dimension
(
    `organization_id` String,
    `app_id` String,
    `dimension` String,
    `value` String,
    `attributed` Bool,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `reinstalls` UInt64,
    `opens` UInt64,
    `reengagements` UInt64,
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    cell.1 AS dimension,
    cell.2 AS value,
    attributed,
    log_partition,
    cell.3 AS bucket,
    count() AS rows,
    countIf(trigger = 'reinstall') AS reinstalls,
    countIf(trigger IN ('reengagement', 'deep_link')) AS opens,
    countIf(trigger = 'reengagement') AS reengagements,
    max(batch_no) AS batch_no
FROM installs
ARRAY JOIN [('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))), ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')), ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))] AS cell
GROUP BY
    organization_id,
    app_id,
    dimension,
    value,
    attributed,
    log_partition,
    bucket;

CREATE TABLE installs_by_link
(
    `organization_id` LowCardinality(String),
    `app_id` LowCardinality(String),
    `link_id` String,
    `campaign` LowCardinality(String),
    `attributed` Bool,
    `bucket` DateTime('UTC'),
    `rows` SimpleAggregateFunction(sum, UInt64),
    `reinstalls` SimpleAggregateFunction(sum, UInt64),
    `opens` SimpleAggregateFunction(sum, UInt64),
    `reengagements` SimpleAggregateFunction(sum, UInt64),
    `log_partition` UInt16,
    `batch_no` SimpleAggregateFunction(max, UInt64),
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
PRIMARY KEY (organization_id, app_id, link_id, campaign, bucket, attributed)
ORDER BY (organization_id, app_id, link_id, campaign, bucket, attributed, log_partition)
TTL bucket + toIntervalDay(730)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;

CREATE MATERIALIZED VIEW installs_by_link_view TO installs_by_link
(
    `organization_id` String,
    `app_id` String,
    `link_id` String,
    `campaign` String,
    `attributed` Bool,
    `log_partition` UInt16,
    `bucket` DateTime('UTC'),
    `rows` UInt64,
    `reinstalls` UInt64,
    `opens` UInt64,
    `reengagements` UInt64,
    `batch_no` UInt64
)
AS SELECT
    organization_id,
    app_id,
    link_id,
    campaign,
    attributed,
    log_partition,
    toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
    count() AS rows,
    countIf(trigger = 'reinstall') AS reinstalls,
    countIf(trigger IN ('reengagement', 'deep_link')) AS opens,
    countIf(trigger = 'reengagement') AS reengagements,
    max(batch_no) AS batch_no
FROM installs
GROUP BY
    organization_id,
    app_id,
    link_id,
    campaign,
    attributed,
    log_partition,
    bucket;

CREATE TABLE matches
(
    `match_id` String,
    `organization_id` String,
    `app_id` String,
    `device_id` String,
    `install_id` String,
    `time` DateTime64(3, 'UTC'),
    `platform` String,
    `outcome` String,
    `match_type` String,
    `click_id` String,
    `link_id` String,
    `browser` String,
    `ip` String,
    `confidence` Float64,
    `competing_links` UInt32,
    `shadow_outcome` String,
    `shadow_click_id` String,
    `shadow_link_id` String,
    `shadow_confidence` Float64,
    `duration_us` UInt32,
    `detail` String,
    `log_partition` UInt16,
    `batch_no` UInt64,
    `producer_id` String,
    `frame_no` UInt64,
    `idx` UInt32,
    INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
    INDEX match_ids match_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX device_ids device_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX install_ids install_id TYPE bloom_filter(0.01) GRANULARITY 1,
    CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, time)
TTL toDateTime(time) + toIntervalDay(90)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;
