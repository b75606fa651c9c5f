-- A click is looked up by its id once Redis does not have it any more. Within an app's day rows are ordered by link, so the time of the id
-- leads to few granules where a link has many clicks, and the id itself where many links share a granule.
ALTER TABLE clicks ${on_cluster}
  ADD INDEX IF NOT EXISTS times time TYPE minmax GRANULARITY 1,
  ADD INDEX IF NOT EXISTS click_ids click_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE clicks ${on_cluster} MATERIALIZE INDEX times;
ALTER TABLE clicks ${on_cluster} MATERIALIZE INDEX click_ids;
