-- A message reaches an endpoint, and a server key, only if they cover its app. app_ids of an endpoint may be narrowed after it got messages.

-- Whether an endpoint with these app_ids (null: all apps) may have the message. Of a batch of clicks, it gets those of its apps.
CREATE FUNCTION signpost_is_message_for(app_ids text[], type text, data jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT app_ids IS NULL OR CASE WHEN type = 'click.batch' THEN coalesce(nullif(data -> 'app_ids', 'null') ?| app_ids, true)
                                    ELSE coalesce(data ->> 'app_id' = ANY (app_ids), true) END $$;

CREATE FUNCTION signpost_drop_messages_of_other_apps() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  WITH dropped AS (
    DELETE FROM webhook_messages m
     WHERE m.endpoint_id = NEW.id
       AND (NOT signpost_is_message_for(NEW.app_ids, m.type, m.data)
            OR m.type = 'endpoint.disabled'
               AND NOT EXISTS (SELECT FROM webhook_endpoints d WHERE d.id = m.data ->> 'id' AND d.app_ids <@ NEW.app_ids))
    RETURNING m.id
  )
  DELETE FROM webhook_attempts a USING dropped d WHERE a.message_id = d.id;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION signpost_drop_messages_of_other_apps() FROM PUBLIC;
CREATE TRIGGER webhook_endpoints_narrowed AFTER UPDATE OF app_ids ON webhook_endpoints FOR EACH ROW
  WHEN (NEW.app_ids IS NOT NULL AND (OLD.app_ids <@ NEW.app_ids) IS NOT TRUE) EXECUTE FUNCTION signpost_drop_messages_of_other_apps();

-- Endpoints that were narrowed before this version.
WITH dropped AS (
  DELETE FROM webhook_messages m USING webhook_endpoints e
   WHERE e.id = m.endpoint_id AND e.app_ids IS NOT NULL
     AND (NOT signpost_is_message_for(e.app_ids, m.type, m.data)
          OR m.type = 'endpoint.disabled'
             AND NOT EXISTS (SELECT FROM webhook_endpoints d WHERE d.id = m.data ->> 'id' AND d.app_ids <@ e.app_ids))
  RETURNING m.id
)
DELETE FROM webhook_attempts a USING dropped d WHERE a.message_id = d.id;

-- A server key for some apps sees no message of other apps: neither a batch with clicks of theirs, nor that one of their endpoints was disabled.
DROP POLICY allowed_apps ON webhook_messages;
CREATE POLICY allowed_apps ON webhook_messages AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR
         EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = endpoint_id) AND
         CASE type WHEN 'click.batch' THEN data -> 'app_ids' <@ to_jsonb((SELECT signpost_apps())::text[])
                   WHEN 'endpoint.disabled' THEN EXISTS (SELECT FROM webhook_endpoints d WHERE d.id = data ->> 'id')
                   ELSE coalesce(data ->> 'app_id' = ANY ((SELECT signpost_apps())::text[]), true) END);
DROP POLICY allowed_apps ON webhook_attempts;
CREATE POLICY allowed_apps ON webhook_attempts AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR EXISTS (SELECT FROM webhook_messages m WHERE m.id = message_id));
