-- Hashes by which funnels and cohorts join records: reading and hashing the ids for every query costs several times as much. 0: no id. An
-- erasure that empties an id changes its hash as well. Parts from before get the columns with their next merge; until then, a query
-- calculates them.
ALTER TABLE clicks ${on_cluster}
  ADD COLUMN IF NOT EXISTS click_key UInt64 MATERIALIZED if(click_id = '', 0, cityHash64(click_id));
ALTER TABLE events ${on_cluster}
  ADD COLUMN IF NOT EXISTS device_key UInt64 MATERIALIZED if(install_id = '', 0, cityHash64(app_id, install_id));
