-- One row for each question of a device and what was decided about it, refusals too. No rollup follows from it. `detail` is JSON: what
-- the device said, what it was compared with, and the settings.
CREATE TABLE IF NOT EXISTS matches ${on_cluster} (
  match_id String,
  organization_id String,
  app_id String,
  device_id String,
  install_id String,
  time DateTime64(3, 'UTC'),
  platform String,
  outcome String,
  match_type String,
  click_id String,
  link_id String,
  browser String,
  ip String,
  confidence Float64,
  competing_links UInt32,
  shadow_outcome String,
  shadow_click_id String,
  shadow_link_id String,
  shadow_confidence Float64,
  duration_us UInt32,
  detail String,
  log_partition UInt16,
  batch_no UInt64,
  producer_id String,
  frame_no UInt64,
  idx UInt32,
  INDEX batch_nos batch_no TYPE minmax GRANULARITY 1,
  INDEX match_ids match_id TYPE bloom_filter(0.01) GRANULARITY 1,
  INDEX device_ids device_id TYPE bloom_filter(0.01) GRANULARITY 1,
  INDEX install_ids install_id TYPE bloom_filter(0.01) GRANULARITY 1,
  CONSTRAINT fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition)
)
ENGINE = ${MergeTree}
PARTITION BY toYYYYMM(time)
ORDER BY (organization_id, app_id, time)
TTL toDateTime(time) + toIntervalDay(${match_retention_days})
SETTINGS ${once_and_kept}, ttl_only_drop_parts = 1, index_granularity = 1024, min_parts_to_merge_at_once = 8;
