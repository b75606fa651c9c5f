-- Revenue of the installs of a quarter of an hour at each age in days, by currency: rows of their own, whose `age` begins at 1000. Rows that
-- count installs have no currency. Up to when revenue was compared is separate, because an ingest of the version before has compared without.
ALTER TABLE active_installs ${on_cluster}
  ADD COLUMN IF NOT EXISTS currency LowCardinality(String),
  ADD COLUMN IF NOT EXISTS revenue SimpleAggregateFunction(sum, Decimal(38, 9)),
  MODIFY ORDER BY (organization_id, is_whole, age, app_id, cohort, link_id, campaign, platform, country, day, currency);
ALTER TABLE active_installs_compared ${on_cluster}
  ADD COLUMN IF NOT EXISTS revenue_as_of SimpleAggregateFunction(max, DateTime64(3, 'UTC'));
