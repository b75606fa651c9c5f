-- The API logs users in and out, and becomes signpost_api for the rows of a tenant. It changes passwords, memberships and
-- names of organizations only by functions that keep their rules, and deletes no account: an administrator does that, as
-- the owner.
GRANT USAGE ON SCHEMA public, ingest TO signpost_api_process;
GRANT EXECUTE ON FUNCTION signpost_deletion_time() TO signpost_api_process;
GRANT SELECT ON ready_migrations TO signpost_api_process;
GRANT SELECT ON users, memberships, organizations TO signpost_api_process;
GRANT INSERT (id, email, name) ON users TO signpost_api_process;
GRANT UPDATE (not_before) ON users TO signpost_api_process;
GRANT INSERT ON memberships, organizations TO signpost_api_process;
GRANT SELECT, INSERT, DELETE ON invitations TO signpost_api_process;
-- Rows are locked before they are deleted, which requires the privilege to update one column.
GRANT UPDATE (created_at) ON invitations TO signpost_api_process;
GRANT SELECT ON audit_log TO signpost_api_process;
GRANT EXECUTE ON FUNCTION signpost_note_change(text, text, text, text, text[], text[], text, text) TO signpost_api_process;
GRANT SELECT, INSERT, DELETE, UPDATE (state, attempts, due_at, failure, content_ciphertext) ON mails TO signpost_api_process;
GRANT EXECUTE ON FUNCTION signpost_may_get_certificate(text, boolean, integer), signpost_has_room(text, text, integer), signpost_set_role(text, text, text, text), signpost_remove_member(text, text, text),
  signpost_rename_organization(text, text, text), signpost_change_password(text, text, text),
  signpost_invitation_of(bytea, timestamptz), signpost_accept_invitation(bytea, timestamptz, text, text, text, text),
  signpost_begin_password_reset(text, text, bytea, timestamptz, timestamptz),
  signpost_password_reset_of(bytea, timestamptz), signpost_reset_password(bytea, timestamptz, text), signpost_prove_address(text),
  signpost_keep_password_reset(text, timestamptz, timestamptz)
  TO signpost_api_process;
GRANT EXECUTE ON FUNCTION signpost_installation(), signpost_sealed_sample(), signpost_keep_secret_check(text) TO signpost_api_process;
GRANT SELECT, INSERT, UPDATE, DELETE ON refresh_tokens, browser_sessions, idempotency_keys, oauth_states, user_totp, recovery_codes TO signpost_api_process;
GRANT SELECT, UPDATE (last_used_at) ON server_keys TO signpost_api_process;
GRANT SELECT, INSERT, UPDATE ON user_identities TO signpost_api_process;
GRANT SELECT, DELETE ON outbox TO signpost_api_process;
-- Rows are locked before they are deleted, which requires the privilege to update one column.
GRANT UPDATE (changed_at) ON outbox TO signpost_api_process;
GRANT SELECT, UPDATE ON host_checks TO signpost_api_process;
GRANT SELECT (id, organization_id) ON webhook_endpoints TO signpost_api_process;
GRANT SELECT, UPDATE (worker, worker_until), DELETE ON imports TO signpost_api_process;
GRANT SELECT (id, host, host_verified_at, deleted_at), UPDATE (host_verified_at) ON apps TO signpost_api_process;
GRANT SELECT (id, organization_id) ON saved_views TO signpost_api_process;
GRANT SELECT (id, organization_id) ON utm_templates TO signpost_api_process;
GRANT SELECT ON shared_pages TO signpost_api_process;
GRANT SELECT ON exchange_rates TO signpost_api_process;
GRANT SELECT ON ingest.ledger, ingest.lost_frames, ingest.progress TO signpost_api_process;
GRANT SELECT (owner, expires_at) ON ingest.lease TO signpost_api_process;
GRANT SELECT, INSERT, UPDATE, DELETE ON hourly_audits TO signpost_api_process;
DO $$
BEGIN
  IF NOT pg_has_role('signpost_api_process', 'signpost_api', 'MEMBER') THEN
    GRANT signpost_api TO signpost_api_process;
  END IF;
EXCEPTION
  WHEN unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'signpost_api_process is no member of signpost_api, and % may not make it one', current_user
      USING HINT = 'As an administrator, once: GRANT signpost_api TO signpost_api_process;';
END $$;
-- Proofs of hosts are checked across all tenants.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'host_checks' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON host_checks TO signpost_api_process USING (true);
  END IF;
  -- The next import to work on, and those that are too old, are looked up across all tenants.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'imports' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON imports TO signpost_api_process USING (true);
  END IF;
  -- A key is looked up before its organization is known.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'server_keys' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON server_keys TO signpost_api_process USING (true);
  END IF;
  -- An endpoint is looked up before its organization is known.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'webhook_endpoints' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON webhook_endpoints FOR SELECT TO signpost_api_process USING (true);
  END IF;
  -- A view is looked up before its organization is known.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'saved_views' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON saved_views FOR SELECT TO signpost_api_process USING (true);
  END IF;
  -- A template is looked up before its organization is known.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'utm_templates' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON utm_templates FOR SELECT TO signpost_api_process USING (true);
  END IF;
  -- A page is looked up by its token or id before its organization is known.
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'shared_pages' AND policyname = 'api_process') THEN
    CREATE POLICY api_process ON shared_pages FOR SELECT TO signpost_api_process USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'apps' AND policyname = 'api_process_read') THEN
    CREATE POLICY api_process_read ON apps FOR SELECT TO signpost_api_process USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'apps' AND policyname = 'api_process_verify') THEN
    CREATE POLICY api_process_verify ON apps FOR UPDATE TO signpost_api_process USING (true);
  END IF;
END $$;
