-- What a redirector may see of Postgres: the links, and of apps what it takes to answer a visitor. No migration, because the
-- role is optional: npm start runs this on its own server at every start; on a server of yours, an administrator runs it after
-- npm run migrate, gives the role a password (ALTER ROLE signpost_redirector LOGIN PASSWORD '…') and sets EDGE_DATABASE_URL.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'signpost_redirector') THEN
    CREATE ROLE signpost_redirector NOLOGIN NOINHERIT;
  END IF;
END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM signpost_redirector;
GRANT USAGE ON SCHEMA public TO signpost_redirector;
GRANT SELECT (id, organization_id, host, host_verified_at, ios, android, fallback_url, settings, deleted_at) ON apps TO signpost_redirector;
GRANT SELECT ON links TO signpost_redirector;
DROP POLICY IF EXISTS redirector ON apps;
DROP POLICY IF EXISTS redirector ON links;
CREATE POLICY redirector ON apps FOR SELECT TO signpost_redirector USING (true);
CREATE POLICY redirector ON links FOR SELECT TO signpost_redirector USING (true);
