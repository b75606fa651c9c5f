-- The codes of the new rows that a dry run has read so far, to find later rows with the same. The operator && is not leakproof, so
-- row level security kept it from the index of import_rows.codes, and each chunk read all rows of the chunks before it.
-- The end of the dry run removes them.
CREATE TABLE import_codes (
  import_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  code text NOT NULL,
  number integer NOT NULL,
  PRIMARY KEY (import_id, code)
);
INSERT INTO import_codes (import_id, organization_id, app_id, code, number)
  SELECT r.import_id, r.organization_id, r.app_id, c.code, r.number
    FROM imports i JOIN import_rows r ON r.import_id = i.id CROSS JOIN unnest(r.codes) AS c (code)
   WHERE i.state = 'checking' AND r.outcome = 'new' ON CONFLICT DO NOTHING;
DROP INDEX import_rows_codes;

ALTER TABLE import_codes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON import_codes TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON import_codes AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT, INSERT, DELETE ON import_codes TO signpost_api;

-- An import grows tables many times over before autovacuum analyzes them, and plans for tables that look empty pair each link with
-- each row. The worker of imports calls this.
CREATE FUNCTION signpost_analyze_imports() RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public SET lock_timeout = '2s' AS $$
BEGIN
  -- Only what statements search by: samples of JSON and arrays cost ten times as much.
  ANALYZE import_rows (import_id, organization_id, app_id, number, outcome, result, link_id), import_codes,
    links (id, organization_id, app_id, short_code, external_id, source, deleted_at), link_codes, link_tags;
EXCEPTION WHEN lock_not_available THEN
  -- A vacuum is at work on one of them, and analyzes it as well.
  NULL;
END $$;
REVOKE ALL ON FUNCTION signpost_analyze_imports() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_analyze_imports() TO signpost_api;
