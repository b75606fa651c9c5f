-- The function is that of 0966 but for the time by which it merges the rows of a holder that is gone: the clock of Postgres may be ahead.
DO $$
DECLARE
  before text := pg_get_functiondef('signpost_report_clicks(text,text,text,boolean,text[],bigint[],bigint[],bigint[])'::regprocedure);
  old text := 'gone_at < now() - interval ''90 days''';
BEGIN
  IF strpos(before, old) = 0 THEN
    RAISE EXCEPTION 'signpost_report_clicks has changed';
  END IF;
  EXECUTE replace(before, old, 'gone_at < signpost_deletion_time() - interval ''90 days''');
END $$;
