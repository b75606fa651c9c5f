-- Redirectors read links, and the columns of apps that are needed to answer a visitor.
GRANT USAGE ON SCHEMA public TO signpost_redirector;
GRANT SELECT ON ready_migrations TO signpost_redirector;
GRANT SELECT (id, organization_id, host, host_verified_at, ios, android, fallback_url, settings, pages, deleted_at) ON apps TO signpost_redirector;
GRANT SELECT ON links, link_codes, link_passwords TO signpost_redirector;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'apps' AND policyname = 'redirector') THEN
    CREATE POLICY redirector ON apps FOR SELECT TO signpost_redirector USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'links' AND policyname = 'redirector') THEN
    CREATE POLICY redirector ON links FOR SELECT TO signpost_redirector USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'link_passwords' AND policyname = 'redirector') THEN
    CREATE POLICY redirector ON link_passwords FOR SELECT TO signpost_redirector USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'link_codes' AND policyname = 'redirector') THEN
    CREATE POLICY redirector ON link_codes FOR SELECT TO signpost_redirector USING (true);
  END IF;
END $$;
-- Visits of unknown codes are counted only by this function, which bounds them.
GRANT EXECUTE ON FUNCTION signpost_count_orphans(text[], date[], text[], bigint[], timestamptz[], integer) TO signpost_redirector;
-- Long links are made only by this function, which checks and limits them.
GRANT EXECUTE ON FUNCTION signpost_make_long_link(text, text, text, jsonb) TO signpost_redirector;
-- Shares of clicks are taken only by these functions, which keep the maximum of each link.
GRANT EXECUTE ON FUNCTION signpost_report_clicks(text, text, text, boolean, text[], bigint[], bigint[], bigint[]),
  signpost_grant_clicks(text, text, bigint, bigint, bigint, integer, integer) TO signpost_redirector;
-- As redirectors of an earlier version call them.
GRANT EXECUTE ON FUNCTION signpost_enter_clicks(text, text, text, text, boolean),
  signpost_report_clicks(text, text[], bigint[], bigint[], bigint[]), signpost_open_clicks(text),
  signpost_take_clicks(text, text, bigint, bigint, bigint, integer, integer, integer) TO signpost_redirector;
-- Copies of Apple's postbacks are stored only by this function, which assigns them to an app and bounds them.
GRANT EXECUTE ON FUNCTION signpost_store_ad_postback(text, text, jsonb) TO signpost_redirector;
