-- Where records came from, more exactly than their country: empty unless the database of GEOIP_DB has cities. Rollups have neither.
ALTER TABLE clicks ${on_cluster}
  ADD COLUMN IF NOT EXISTS region LowCardinality(String) DEFAULT '' AFTER country,
  ADD COLUMN IF NOT EXISTS city LowCardinality(String) DEFAULT '' AFTER region;
ALTER TABLE installs ${on_cluster}
  ADD COLUMN IF NOT EXISTS region LowCardinality(String) DEFAULT '' AFTER country,
  ADD COLUMN IF NOT EXISTS city LowCardinality(String) DEFAULT '' AFTER region;
ALTER TABLE events ${on_cluster}
  ADD COLUMN IF NOT EXISTS region LowCardinality(String) DEFAULT '' AFTER country,
  ADD COLUMN IF NOT EXISTS city LowCardinality(String) DEFAULT '' AFTER region;
