-- Which rule of its link led a click, with which of its destinations (common/links/rule-id.ts); empty if none did.
ALTER TABLE clicks ${on_cluster} ADD COLUMN IF NOT EXISTS rule LowCardinality(String) DEFAULT '' AFTER trigger;
