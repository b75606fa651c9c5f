-- Single rows are looked for by id: an event's install once Redis has lost it, and the first of an event that came twice.
ALTER TABLE installs ${on_cluster} ADD INDEX IF NOT EXISTS install_ids install_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE installs ${on_cluster} ADD INDEX IF NOT EXISTS device_ids device_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE installs ${on_cluster} ADD INDEX IF NOT EXISTS click_ids click_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE events ${on_cluster} ADD INDEX IF NOT EXISTS event_ids event_id TYPE bloom_filter(0.01) GRANULARITY 1;
