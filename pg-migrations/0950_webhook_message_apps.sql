-- A message reaches an endpoint, and a server key, only if they cover its app. app_ids of an endpoint may be narrowed after it got messages:
-- from then on they are neither sent nor shown, and the webhooks process deletes them.

-- Old processes run meanwhile, and lock these tables in this order. No lock of webhook_endpoints is needed that would block them.
LOCK TABLE webhook_attempts, webhook_messages IN ACCESS EXCLUSIVE MODE;

-- An endpoint for some apps hears only of endpoints that cover no others.
CREATE FUNCTION signpost_hears_of(app_ids text[], endpoint text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE SET search_path = public AS
  $$ SELECT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint AND e.app_ids <@ signpost_hears_of.app_ids) $$;

-- Whether an endpoint with these app_ids (null: all apps) may have the message. Of a batch of clicks, it gets those of its apps.
CREATE FUNCTION signpost_is_message_for(app_ids text[], type text, data jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT app_ids IS NULL OR CASE type WHEN 'click.batch' THEN coalesce(nullif(data -> 'app_ids', 'null') ?| app_ids, true)
                                         WHEN 'endpoint.disabled' THEN signpost_hears_of(app_ids, data ->> 'id')
                                         ELSE coalesce(data ->> 'app_id' = ANY (app_ids), true) END $$;

-- A server key for some apps sees no message of other apps: neither a batch with clicks of theirs, nor that one of their endpoints was disabled.
DROP POLICY allowed_apps ON webhook_attempts;
CREATE POLICY allowed_apps ON webhook_attempts AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR EXISTS (SELECT FROM webhook_messages m WHERE m.id = message_id));
DROP POLICY allowed_apps ON webhook_messages;
CREATE POLICY allowed_apps ON webhook_messages AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR
         EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint_id) AND
         CASE type WHEN 'click.batch' THEN data -> 'app_ids' <@ to_jsonb((SELECT signpost_apps())::text[])
                   WHEN 'endpoint.disabled' THEN EXISTS (SELECT FROM webhook_endpoints d WHERE d.id = data ->> 'id')
                   ELSE coalesce(data ->> 'app_id' = ANY ((SELECT signpost_apps())::text[]), true) END);
