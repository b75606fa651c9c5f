-- A row of installs says what made the app open. Links that open an app which was there stand beside the installs, and are no installs:
-- `reengagement` on a device with a known install, `deep_link` on any other. Of rows of before, all were installs.
ALTER TABLE installs ${on_cluster} ADD COLUMN IF NOT EXISTS trigger String DEFAULT 'install' AFTER attributed;

ALTER TABLE installs_by_link ${on_cluster}
  ADD COLUMN IF NOT EXISTS reinstalls SimpleAggregateFunction(sum, UInt64) AFTER rows,
  ADD COLUMN IF NOT EXISTS opens SimpleAggregateFunction(sum, UInt64) AFTER reinstalls,
  ADD COLUMN IF NOT EXISTS reengagements SimpleAggregateFunction(sum, UInt64) AFTER opens;

ALTER TABLE installs_by_link_view ${on_cluster} MODIFY QUERY
SELECT
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
GROUP BY organization_id, app_id, link_id, campaign, attributed, log_partition, bucket;

ALTER TABLE installs_by_dimension ${on_cluster}
  ADD COLUMN IF NOT EXISTS reinstalls SimpleAggregateFunction(sum, UInt64) AFTER rows,
  ADD COLUMN IF NOT EXISTS opens SimpleAggregateFunction(sum, UInt64) AFTER reinstalls,
  ADD COLUMN IF NOT EXISTS reengagements SimpleAggregateFunction(sum, UInt64) AFTER opens;

ALTER TABLE installs_by_dimension_view ${on_cluster} MODIFY QUERY
SELECT
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
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, attributed, log_partition, bucket;
