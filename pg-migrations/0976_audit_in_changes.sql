-- A row of the audit log is added in the transaction of its change, and only by this function. In a transaction of
-- tenants, it refuses other organizations. Without an organization, the change is one of the actor's own account, which
-- each of their organizations sees.
CREATE FUNCTION signpost_note_change(organization text, actor text, operation text, target text, targets text[], names text[],
                                     client text, request text)
  RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF current_setting('role') = 'signpost_api' AND NOT coalesce(organization = ANY (signpost_organizations()), false) THEN
    RAISE EXCEPTION 'a change in organization % cannot be noted in a transaction of %', organization, signpost_organizations();
  END IF;
  INSERT INTO audit_log (organization_id, at, actor_id, actor_name, action, target_id, target_ids, fields, address, request_id)
  SELECT o.id, date_trunc('milliseconds', now()), actor,
         coalesce((SELECT email FROM users WHERE id = actor), (SELECT name FROM server_keys WHERE id = actor), ''),
         operation, target, targets, names, client, request
    FROM (SELECT organization AS id WHERE organization IS NOT NULL
          UNION ALL
          SELECT organization_id FROM memberships WHERE organization IS NULL AND user_id = actor) AS o;
END $$;
REVOKE ALL ON FUNCTION signpost_note_change(text, text, text, text, text[], text[], text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_note_change(text, text, text, text, text[], text[], text, text) TO signpost_api;
