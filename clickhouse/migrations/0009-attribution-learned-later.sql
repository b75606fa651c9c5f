-- An event that came before its install waits under the keys by which the install will name it. Once it is known, one row takes the event
-- back (sign -1) and another has its attribution (sign 1), both with is_learned. Counts add up sign.
ALTER TABLE events ${on_cluster}
  ADD COLUMN IF NOT EXISTS waiting_keys Array(String) AFTER properties,
  ADD COLUMN IF NOT EXISTS sign Int8 DEFAULT 1,
  ADD COLUMN IF NOT EXISTS is_learned Bool DEFAULT false,
  ADD INDEX IF NOT EXISTS waiting waiting_keys TYPE bloom_filter(0.001) GRANULARITY 1;
ALTER TABLE events ${on_cluster} MATERIALIZE INDEX waiting;

ALTER TABLE events_by_link_view ${on_cluster} MODIFY QUERY
SELECT
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
GROUP BY organization_id, app_id, link_id, campaign, revenue_currency, log_partition, bucket;

ALTER TABLE events_by_dimension_view ${on_cluster} MODIFY QUERY
SELECT
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
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, revenue_currency, log_partition, bucket;
