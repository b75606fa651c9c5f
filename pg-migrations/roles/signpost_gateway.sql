-- The SDK edge reads apps (by the hash of their key, never the key) and links, adds links, and stores installs and
-- claims.
GRANT USAGE ON SCHEMA public TO signpost_gateway;
GRANT EXECUTE ON FUNCTION signpost_deletion_time() TO signpost_gateway;
GRANT SELECT ON ready_migrations TO signpost_gateway;
GRANT SELECT (id, organization_id, version, name, host, host_verified_at, ios, android, fallback_url, allowed_destination_hosts,
  settings, pages, api_key_hash, deleted_at) ON apps TO signpost_gateway;
GRANT SELECT, INSERT ON links TO signpost_gateway;
GRANT SELECT ON link_codes, link_passwords, click_shares TO signpost_gateway;
GRANT SELECT, INSERT, UPDATE (is_open_due) ON claims TO signpost_gateway;
GRANT SELECT, INSERT, DELETE ON install_answers, install_names TO signpost_gateway;
GRANT UPDATE (record) ON install_answers TO signpost_gateway;
GRANT UPDATE (install_id) ON install_names TO signpost_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON device_aliases TO signpost_gateway;
-- Long links that open the app are made only by this function, which checks and limits them.
GRANT EXECUTE ON FUNCTION signpost_make_long_link(text, text, text, jsonb) TO signpost_gateway;
-- Its cleaner also deletes what is older than a year in the audit log, which it cannot read.
GRANT EXECUTE ON FUNCTION signpost_trim_audit_log(integer) TO signpost_gateway;
-- Within a tenant's transaction it sees only that tenant's rows, as signpost_api does; a key or a URL is looked up
-- outside one. It adds links only within a tenant's transaction.
GRANT EXECUTE ON FUNCTION signpost_installation() TO signpost_gateway;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'apps' AND policyname = 'gateway') THEN
    CREATE POLICY gateway ON apps FOR SELECT TO signpost_gateway USING (
      (SELECT coalesce(current_setting('signpost.organization_ids', true), '') = '')
      OR organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'links' AND policyname = 'gateway') THEN
    CREATE POLICY gateway ON links FOR SELECT TO signpost_gateway USING (
      (SELECT coalesce(current_setting('signpost.organization_ids', true), '') = '')
      OR organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'link_codes' AND policyname = 'gateway') THEN
    CREATE POLICY gateway ON link_codes FOR SELECT TO signpost_gateway USING (
      (SELECT coalesce(current_setting('signpost.organization_ids', true), '') = '')
      OR organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'link_passwords' AND policyname = 'gateway') THEN
    CREATE POLICY gateway ON link_passwords FOR SELECT TO signpost_gateway USING (
      (SELECT coalesce(current_setting('signpost.organization_ids', true), '') = '')
      OR organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'click_shares' AND policyname = 'gateway') THEN
    CREATE POLICY gateway ON click_shares FOR SELECT TO signpost_gateway USING (
      organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'links' AND policyname = 'gateway_adds') THEN
    CREATE POLICY gateway_adds ON links FOR INSERT TO signpost_gateway WITH CHECK (
      organization_id = ANY ((SELECT signpost_organizations())::text[]));
  END IF;
END $$;
