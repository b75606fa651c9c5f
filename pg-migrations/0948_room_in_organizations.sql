-- Whether an organization has fewer things of a kind than it may have, those included that the caller's server key does not see.
-- Others who add one wait until this transaction has added its own.
CREATE FUNCTION signpost_has_room(kind text, organization text, maximum integer)
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(kind || ' ' || organization, 5310926));
  RETURN maximum > CASE kind
    WHEN 'invitations' THEN (SELECT count(*) FROM invitations t WHERE t.organization_id = organization)
    WHEN 'postbacks' THEN (SELECT count(*) FROM webhook_endpoints t WHERE t.organization_id = organization AND t.postback_method IS NOT NULL)
    WHEN 'saved_views' THEN (SELECT count(*) FROM saved_views t WHERE t.organization_id = organization)
    WHEN 'server_keys' THEN (SELECT count(*) FROM server_keys t WHERE t.organization_id = organization)
    WHEN 'shared_pages' THEN (SELECT count(*) FROM shared_pages t WHERE t.organization_id = organization)
    WHEN 'unfinished_imports' THEN
      (SELECT count(*) FROM imports t WHERE t.organization_id = organization AND t.state NOT IN ('imported', 'undone', 'failed'))
    WHEN 'utm_templates' THEN (SELECT count(*) FROM utm_templates t WHERE t.organization_id = organization)
    WHEN 'webhooks' THEN (SELECT count(*) FROM webhook_endpoints t WHERE t.organization_id = organization AND t.postback_method IS NULL)
  END;
END $$;
REVOKE ALL ON FUNCTION signpost_has_room(text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_has_room(text, text, integer) TO signpost_api;

DROP FUNCTION signpost_has_room_for_utm_template(text, integer);
