-- The webhooks process delivers messages to the endpoints of all tenants, and notes how that went.
GRANT USAGE ON SCHEMA public TO signpost_webhooks;
GRANT EXECUTE ON FUNCTION signpost_deletion_time() TO signpost_webhooks;
GRANT SELECT ON ready_migrations TO signpost_webhooks;
GRANT SELECT, UPDATE (failing_since, disabled_at, disabled_reason, updated_at) ON webhook_endpoints TO signpost_webhooks;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_messages TO signpost_webhooks;
GRANT SELECT, INSERT, DELETE ON webhook_attempts TO signpost_webhooks;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_batches TO signpost_webhooks;
-- Rows are locked before they are deleted, which requires the privilege to update one column.
GRANT UPDATE (created_at) ON webhook_attempts TO signpost_webhooks;
GRANT EXECUTE ON FUNCTION signpost_installation() TO signpost_webhooks;
GRANT SELECT (outbound_resumed_at) ON installation TO signpost_webhooks;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'webhook_endpoints' AND policyname = 'webhooks') THEN
    CREATE POLICY webhooks ON webhook_endpoints TO signpost_webhooks USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'webhook_messages' AND policyname = 'webhooks') THEN
    CREATE POLICY webhooks ON webhook_messages TO signpost_webhooks USING (true);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'webhook_attempts' AND policyname = 'webhooks') THEN
    CREATE POLICY webhooks ON webhook_attempts TO signpost_webhooks USING (true);
  END IF;
END $$;
