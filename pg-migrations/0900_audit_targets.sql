-- The links that one request created, changed or deleted together, so that the history of each has the change.
ALTER TABLE audit_log ADD COLUMN target_ids text[];
CREATE INDEX audit_log_targets ON audit_log USING gin (target_ids) WHERE target_ids IS NOT NULL;
