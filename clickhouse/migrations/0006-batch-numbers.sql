-- Each batch has a number, and those of a partition of the log only grow. So what is newest and what is newer than a number is
-- cheap to ask for (the index), and an insert whose number is too low is refused (the fence, raised by a partition's new owner).
-- A cell of a rollup belongs to one partition of the log and holds the number of the newest batch in it: since the batches of a
-- partition are stored one after the other, a cell that the newest one touches tells whether the rollup has it.
-- What was stored before has partition 0 and number 0. batch_id names its batches; newer rows do not fill it.
-- The owner that raised it last is named too: what it adds to rollups besides is refused once there is another.
CREATE TABLE IF NOT EXISTS fences ${on_cluster} (log_partition UInt16, batch_no_min UInt64, owner String)
ENGINE = Join(ANY, LEFT, log_partition) SETTINGS join_any_take_last_row = 1;

ALTER TABLE clicks ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16 AFTER batch_id,
  ADD COLUMN IF NOT EXISTS batch_no UInt64 AFTER log_partition,
  ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1,
  ADD CONSTRAINT IF NOT EXISTS fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition);
ALTER TABLE clicks ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE installs ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16 AFTER batch_id,
  ADD COLUMN IF NOT EXISTS batch_no UInt64 AFTER log_partition,
  ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1,
  ADD CONSTRAINT IF NOT EXISTS fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition);
ALTER TABLE installs ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE events ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16 AFTER batch_id,
  ADD COLUMN IF NOT EXISTS batch_no UInt64 AFTER log_partition,
  ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1,
  ADD CONSTRAINT IF NOT EXISTS fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition);
ALTER TABLE events ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE dead_letters ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16 AFTER batch_id,
  ADD COLUMN IF NOT EXISTS batch_no UInt64 AFTER log_partition,
  ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1,
  ADD CONSTRAINT IF NOT EXISTS fenced CHECK batch_no >= joinGet('fences', 'batch_no_min', log_partition);
ALTER TABLE dead_letters ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE clicks_by_link ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, app_id, link_id, campaign, bucket, is_bot, log_partition);
ALTER TABLE clicks_by_link ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE clicks_by_link ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE clicks_by_link_view ${on_cluster} MODIFY QUERY
SELECT
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
GROUP BY organization_id, app_id, link_id, campaign, is_bot, log_partition, bucket;

ALTER TABLE clicks_by_dimension ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, dimension, app_id, bucket, value, is_bot, log_partition);
ALTER TABLE clicks_by_dimension ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE clicks_by_dimension ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE clicks_by_dimension_view ${on_cluster} MODIFY QUERY
SELECT
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
ARRAY JOIN [
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))
] AS cell
GROUP BY organization_id, app_id, dimension, value, is_bot, log_partition, bucket;

ALTER TABLE installs_by_link ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, app_id, link_id, campaign, bucket, attributed, log_partition);
ALTER TABLE installs_by_link ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE installs_by_link ${on_cluster} MATERIALIZE INDEX batch_nos;

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
  max(batch_no) AS batch_no
FROM installs
GROUP BY organization_id, app_id, link_id, campaign, attributed, log_partition, bucket;

ALTER TABLE installs_by_dimension ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, dimension, app_id, bucket, value, attributed, log_partition);
ALTER TABLE installs_by_dimension ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE installs_by_dimension ${on_cluster} MATERIALIZE INDEX batch_nos;

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

ALTER TABLE events_by_link ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, app_id, link_id, campaign, bucket, revenue_currency, log_partition);
ALTER TABLE events_by_link ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE events_by_link ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE events_by_link_view ${on_cluster} MODIFY QUERY
SELECT
  organization_id,
  app_id,
  link_id,
  campaign,
  revenue_currency,
  log_partition,
  toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket,
  count() AS rows,
  sum(toUInt64(is_conversion)) AS conversions,
  sum(ifNull(revenue_amount, 0)) AS revenue,
  max(batch_no) AS batch_no
FROM events
GROUP BY organization_id, app_id, link_id, campaign, revenue_currency, log_partition, bucket;

ALTER TABLE events_by_dimension ${on_cluster}
  ADD COLUMN IF NOT EXISTS log_partition UInt16,
  ADD COLUMN IF NOT EXISTS batch_no SimpleAggregateFunction(max, UInt64),
  MODIFY ORDER BY (organization_id, dimension, app_id, bucket, value, revenue_currency, log_partition);
ALTER TABLE events_by_dimension ${on_cluster} ADD INDEX IF NOT EXISTS batch_nos batch_no TYPE minmax GRANULARITY 1;
ALTER TABLE events_by_dimension ${on_cluster} MATERIALIZE INDEX batch_nos;

ALTER TABLE events_by_dimension_view ${on_cluster} MODIFY QUERY
SELECT
  organization_id,
  app_id,
  cell.1 AS dimension,
  cell.2 AS value,
  revenue_currency,
  log_partition,
  cell.3 AS bucket,
  count() AS rows,
  sum(toUInt64(is_conversion)) AS conversions,
  sum(ifNull(revenue_amount, 0)) AS revenue,
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

-- It told runs of ClickHouse apart, when tokens were believed within one.
DROP TABLE IF EXISTS boots ${on_cluster};
