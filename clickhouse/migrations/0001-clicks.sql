-- One row per click as it was recorded and enriched. Plain types, because LowCardinality made row by row is the most
-- expensive part of an insert. Ordered by day before link, and finely indexed, so that a range of days of an app and the days
-- of one link are both found without reading the rest. batch_id, producer_id, frame_no and idx say where a row came from: the audit counts them.
CREATE TABLE IF NOT EXISTS clicks ${on_cluster} (
  click_id String,
  organization_id String,
  app_id String,
  link_id String,
  time DateTime64(3, 'UTC'),
  ip String,
  user_agent String,
  platform String,
  os String,
  os_version String,
  browser String,
  device_model String,
  language String,
  country String,
  referrer_host String,
  campaign String,
  utm_source String,
  utm_medium String,
  utm_campaign String,
  utm_term String,
  utm_content String,
  query String,
  trigger String,
  is_bot Bool,
  bot_reason String,
  visitor UInt64,
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

-- What could not be stored, with the reason, so that it never holds up the rest.
CREATE TABLE IF NOT EXISTS dead_letters ${on_cluster} (
  kind String,
  reason String,
  time DateTime64(3, 'UTC'),
  record String,
  batch_id String,
  producer_id String,
  frame_no UInt64,
  idx UInt32
)
ENGINE = ${MergeTree}
PARTITION BY toYYYYMM(time)
ORDER BY (kind, time)
TTL toDateTime(time) + toIntervalDay(${retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1;

-- Empty after each restart of the server; its one row names the run.
CREATE TABLE IF NOT EXISTS boots ${on_cluster} (id UUID, made_at DateTime64(9, 'UTC')) ENGINE = Memory;
