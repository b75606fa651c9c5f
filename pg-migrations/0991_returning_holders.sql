-- A holder that another one marks as gone while it reports waits for that, and then gets its shares back. Before, it looked first, saw
-- nothing, and its shares counted as given up for good.
DO $$
DECLARE
  before CONSTANT text := pg_get_functiondef('signpost_report_clicks(text,text,text,boolean,text[],bigint[],bigint[],bigint[])'::regprocedure);
  old CONSTANT text := 'IF EXISTS (SELECT FROM click_holders WHERE holder = p_holder AND gone_at IS NOT NULL) THEN';
BEGIN
  IF strpos(before, old) = 0 THEN
    RAISE EXCEPTION 'signpost_report_clicks has changed';
  END IF;
  EXECUTE replace(before, old, 'IF (SELECT gone_at IS NOT NULL FROM click_holders WHERE holder = p_holder FOR UPDATE) THEN');
END $$;
