-- Asks for the deletion time once instead of for each row, and finds the oldest rows by the index on `at`.
CREATE OR REPLACE FUNCTION signpost_trim_audit_log(rows_max integer) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  oldest CONSTANT timestamptz := signpost_deletion_time() - interval '1 year';
  trimmed integer;
BEGIN
  DELETE FROM audit_log WHERE id IN (
    SELECT id FROM audit_log WHERE at < oldest AND coalesce(stored_at, at) < oldest ORDER BY at LIMIT rows_max FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS trimmed = ROW_COUNT;
  RETURN trimmed;
END $$;
