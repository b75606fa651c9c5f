-- Webhooks: the endpoints of organizations, the messages that are owed to them, and every attempt to deliver one.
CREATE TABLE webhook_endpoints (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  url text NOT NULL CHECK (char_length(url) <= 2048),
  description text NOT NULL DEFAULT '' CHECK (char_length(description) <= 300),
  events text[] NOT NULL CHECK (cardinality(events) > 0),
  -- Null: every app of the organization.
  app_ids text[] CHECK (cardinality(app_ids) > 0),
  -- Encrypted with SECRET_KEY.
  secret_ciphertext text NOT NULL,
  -- Also signs, until that time.
  previous_secret_ciphertext text,
  previous_secret_until timestamptz,
  created_by text REFERENCES users ON DELETE SET NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- The first failure since the last success.
  failing_since timestamptz,
  disabled_at timestamptz,
  disabled_reason text CHECK (disabled_reason IN ('requested', 'gone', 'failing', 'backlog')),
  CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
  CHECK ((previous_secret_ciphertext IS NULL) = (previous_secret_until IS NULL))
);
CREATE INDEX webhook_endpoints_organization ON webhook_endpoints (organization_id, created_at DESC, id DESC);
CREATE INDEX webhook_endpoints_creator ON webhook_endpoints (created_by);

-- One row for each fact and endpoint. Deleted 30 days after it was created.
CREATE TABLE webhook_messages (
  -- Derived from the endpoint and the fact, so that a fact that is recorded again is the same message.
  id text PRIMARY KEY,
  endpoint_id text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
  organization_id text NOT NULL,
  type text NOT NULL,
  occurred_at timestamptz NOT NULL,
  data jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
  -- Attempts since it was created or replayed.
  tries integer NOT NULL DEFAULT 0,
  -- When the next attempt may begin. While one is under way, the time at which its lease ends.
  due_at timestamptz NOT NULL DEFAULT now(),
  lease text
);
CREATE INDEX webhook_messages_due ON webhook_messages (endpoint_id, due_at) WHERE status = 'pending';
CREATE INDEX webhook_messages_leased ON webhook_messages (endpoint_id) WHERE lease IS NOT NULL;
CREATE INDEX webhook_messages_newest ON webhook_messages (endpoint_id, created_at DESC, id DESC);
CREATE INDEX webhook_messages_age ON webhook_messages (created_at);

CREATE TABLE webhook_attempts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint_id text NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
  organization_id text NOT NULL,
  message_id text NOT NULL,
  type text NOT NULL,
  url text NOT NULL,
  attempted_at timestamptz NOT NULL,
  duration_ms integer NOT NULL,
  -- 'delivered', or why not.
  outcome text NOT NULL,
  http_status integer,
  -- The beginning of the answer.
  answer text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_attempts_newest ON webhook_attempts (endpoint_id, id DESC);
CREATE INDEX webhook_attempts_message ON webhook_attempts (message_id, id DESC);
CREATE INDEX webhook_attempts_age ON webhook_attempts (created_at);

ALTER TABLE webhook_endpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_messages ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON webhook_endpoints TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON webhook_messages TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON webhook_attempts TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
-- A server key for some apps may use an endpoint that gets nothing of other apps.
CREATE POLICY allowed_apps ON webhook_endpoints AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_ids <@ (SELECT signpost_apps())::text[]);
CREATE POLICY allowed_apps ON webhook_messages AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint_id));
CREATE POLICY allowed_apps ON webhook_attempts AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint_id));
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoints TO signpost_api;
GRANT SELECT, INSERT, UPDATE ON webhook_messages TO signpost_api;
GRANT SELECT ON webhook_attempts TO signpost_api;

CREATE FUNCTION signpost_webhook_message_id(endpoint text, fact text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT 'msg_' || left(encode(sha256(convert_to(endpoint || ' ' || fact, 'UTF8')), 'hex'), 32) $$;

-- A change of links adds its messages in its own transaction. It may be made by any process, or by hand.
CREATE FUNCTION signpost_owe_created_links() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, 'link.created ' || n.id), e.id, e.organization_id, 'link.created', n.created_at,
           to_jsonb(n) - 'deleted_at' || jsonb_build_object('host', a.host, 'other_codes',
             to_jsonb(ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = n.id ORDER BY c.code)))
      FROM new_rows n
      JOIN webhook_endpoints e ON e.organization_id = n.organization_id AND e.disabled_at IS NULL
       AND 'link.created' = ANY (e.events) AND (e.app_ids IS NULL OR n.app_id = ANY (e.app_ids))
      JOIN apps a ON a.id = n.app_id
     WHERE n.deleted_at IS NULL
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION signpost_owe_changed_links() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, gen_random_uuid()::text), e.id, e.organization_id, t.type, n.updated_at,
           to_jsonb(n) - 'deleted_at' || jsonb_build_object('host', a.host, 'other_codes',
             to_jsonb(ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = n.id ORDER BY c.code)))
      FROM new_rows n
      JOIN old_rows o ON o.id = n.id
     CROSS JOIN LATERAL (SELECT CASE WHEN n.deleted_at IS NULL THEN 'link.updated' ELSE 'link.deleted' END AS type) AS t
      JOIN webhook_endpoints e ON e.organization_id = n.organization_id AND e.disabled_at IS NULL
       AND t.type = ANY (e.events) AND (e.app_ids IS NULL OR n.app_id = ANY (e.app_ids))
      JOIN apps a ON a.id = n.app_id
     WHERE o.deleted_at IS NULL AND to_jsonb(o) - 'updated_at' <> to_jsonb(n) - 'updated_at';
  RETURN NULL;
END $$;
CREATE TRIGGER links_created_owed AFTER INSERT ON links REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_created_links();
CREATE TRIGGER links_changed_owed AFTER UPDATE ON links REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_links();
