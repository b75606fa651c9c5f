-- Further facts that webhooks are owed: changed codes of a link, the end of an import, and an audit that failed.

-- The links that this transaction created, up to a bound: their codes belong to link.created, and cause no link.updated.
CREATE FUNCTION signpost_created_links() RETURNS text[] LANGUAGE sql STABLE SET search_path = public AS
  $$ SELECT coalesce(string_to_array(current_setting('signpost.created_links', true), ' '), '{}') $$;

CREATE FUNCTION signpost_owed_link(link links) RETURNS jsonb LANGUAGE sql STABLE SET search_path = public AS
  $$ SELECT to_jsonb(link) - 'deleted_at' || jsonb_build_object('host', (SELECT a.host FROM apps a WHERE a.id = link.app_id),
       'other_codes', to_jsonb(ARRAY(SELECT c.code FROM link_codes c WHERE c.link_id = link.id ORDER BY c.code))) $$;

CREATE OR REPLACE FUNCTION signpost_owe_created_links() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  -- Beyond 64 KiB the list is not continued; further codes of those links are announced as changes.
  IF octet_length(coalesce(current_setting('signpost.created_links', true), '')) < 65536 THEN
    PERFORM set_config('signpost.created_links',
      concat_ws(' ', nullif(current_setting('signpost.created_links', true), ''), (SELECT string_agg(id, ' ') FROM new_rows)), true);
  END IF;
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, 'link.created ' || l.id), e.id, e.organization_id, 'link.created', l.created_at, signpost_owed_link(l)
      FROM new_rows n
      JOIN webhook_endpoints e ON e.organization_id = n.organization_id AND e.disabled_at IS NULL
       AND 'link.created' = ANY (e.events) AND (e.app_ids IS NULL OR n.app_id = ANY (e.app_ids))
      JOIN links l ON l.id = n.id
     WHERE l.deleted_at IS NULL
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

-- One message for each link and statement. A deleted link is gone already, or marked as deleted.
CREATE FUNCTION signpost_owe_changed_codes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  touched text[];
  created CONSTANT text[] := signpost_created_links();
BEGIN
  IF TG_OP = 'UPDATE' THEN
    touched := ARRAY(SELECT link_id FROM ((SELECT link_id, code FROM changed EXCEPT SELECT link_id, code FROM gone) UNION
                                          (SELECT link_id, code FROM gone EXCEPT SELECT link_id, code FROM changed)) AS t GROUP BY link_id);
  ELSE
    touched := ARRAY(SELECT link_id FROM changed GROUP BY link_id);
  END IF;
  IF cardinality(touched) = 0 THEN
    RETURN NULL;
  END IF;
  UPDATE webhook_messages m SET data = signpost_owed_link(l)
    FROM links l JOIN webhook_endpoints e ON e.organization_id = l.organization_id AND 'link.created' = ANY (e.events)
   WHERE l.id = ANY (touched) AND l.id = ANY (created) AND m.id = signpost_webhook_message_id(e.id, 'link.created ' || l.id);
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, gen_random_uuid()::text), e.id, e.organization_id, 'link.updated', now(), signpost_owed_link(l)
      FROM links l
      JOIN webhook_endpoints e ON e.organization_id = l.organization_id AND e.disabled_at IS NULL
       AND 'link.updated' = ANY (e.events) AND (e.app_ids IS NULL OR l.app_id = ANY (e.app_ids))
     WHERE l.id = ANY (touched) AND l.id <> ALL (created) AND l.deleted_at IS NULL;
  RETURN NULL;
END $$;
CREATE TRIGGER link_codes_added_owed AFTER INSERT ON link_codes REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();
CREATE TRIGGER link_codes_removed_owed AFTER DELETE ON link_codes REFERENCING OLD TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();
CREATE TRIGGER link_codes_changed_owed AFTER UPDATE ON link_codes REFERENCING OLD TABLE AS gone NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_changed_codes();

CREATE FUNCTION signpost_time_text(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- An import ends in the transaction of its last chunk, once in each of these states.
CREATE FUNCTION signpost_owe_finished_import() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, 'import.finished ' || NEW.id || ' ' || NEW.state), e.id, e.organization_id, 'import.finished', NEW.updated_at,
           jsonb_build_object('id', NEW.id, 'app_id', NEW.app_id, 'source', NEW.source, 'state', NEW.state, 'problem', NEW.problem,
             'rows', (SELECT jsonb_object_agg(name, coalesce(NEW.counts -> name, '0')) FROM unnest(ARRAY['new', 'same', 'conflict', 'unsupported']) AS name),
             'results', (SELECT jsonb_object_agg(name, coalesce(NEW.counts -> name, '0')) FROM unnest(ARRAY['created', 'taken', 'removed', 'kept']) AS name),
             'created_by', NEW.created_by, 'created_at', signpost_time_text(NEW.created_at))
      FROM webhook_endpoints e
     WHERE e.organization_id = NEW.organization_id AND e.disabled_at IS NULL
       AND 'import.finished' = ANY (e.events) AND (e.app_ids IS NULL OR NEW.app_id = ANY (e.app_ids))
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER imports_finished_owed AFTER UPDATE OF state ON imports FOR EACH ROW
  WHEN (OLD.state <> NEW.state AND NEW.state IN ('imported', 'undone', 'failed')) EXECUTE FUNCTION signpost_owe_finished_import();

-- What an audit found, by fault and app: [{fault, organization_id, app_id, count}]. Lost clicks name no organization and have no count.
ALTER TABLE hourly_audits ADD COLUMN failures jsonb NOT NULL DEFAULT '[]';

-- A failure that the audit before found too is not owed again.
CREATE FUNCTION signpost_owe_failed_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO webhook_messages (id, endpoint_id, organization_id, type, occurred_at, data)
    SELECT signpost_webhook_message_id(e.id, concat_ws(' ', 'audit.failed', NEW.hour, f.fault, f.app_id)), e.id, e.organization_id, 'audit.failed', now(),
           jsonb_build_object('hour', signpost_time_text(to_timestamp(NEW.hour / 1000)), 'fault', f.fault, 'app_id', f.app_id, 'count', f.count)
      FROM jsonb_to_recordset(NEW.failures) AS f (fault text, organization_id text, app_id text, count bigint)
      JOIN webhook_endpoints e ON e.disabled_at IS NULL AND 'audit.failed' = ANY (e.events)
       AND (f.organization_id IS NULL OR f.organization_id = e.organization_id)
       AND (f.app_id IS NULL OR e.app_ids IS NULL OR f.app_id = ANY (e.app_ids))
     WHERE NOT EXISTS (
             SELECT FROM jsonb_to_recordset((SELECT b.failures FROM hourly_audits b WHERE b.hour < NEW.hour AND b.figures IS NOT NULL ORDER BY b.hour DESC LIMIT 1))
                 AS k (fault text, organization_id text, app_id text)
              WHERE k.fault = f.fault AND k.organization_id IS NOT DISTINCT FROM f.organization_id AND k.app_id IS NOT DISTINCT FROM f.app_id)
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER audits_failed_owed AFTER UPDATE OF figures ON hourly_audits FOR EACH ROW
  WHEN (OLD.figures IS NULL AND NEW.figures IS NOT NULL AND NEW.failures <> '[]') EXECUTE FUNCTION signpost_owe_failed_audit();
