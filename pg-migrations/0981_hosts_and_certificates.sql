-- An organization's apps are bounded, and so are the new hosts per day for which it makes a proxy request certificates.
CREATE TABLE certificate_hosts (
  host text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
  is_own boolean NOT NULL,
  asked_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX certificate_hosts_organization ON certificate_hosts (organization_id, asked_at);
-- Only the function reads and writes it.
ALTER TABLE certificate_hosts ENABLE ROW LEVEL SECURITY;
-- Hosts that are served before this migration count as asked for long ago.
INSERT INTO certificate_hosts (host, organization_id, is_own, asked_at)
  SELECT host, organization_id, false, 'epoch' FROM apps WHERE host_verified_at IS NOT NULL AND deleted_at IS NULL;

-- Whether an app is served on the host, and its organization asked for fewer new hosts of the kind today than it may.
CREATE FUNCTION signpost_may_get_certificate(asked text, own boolean, per_day integer)
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  owner text := (SELECT organization_id FROM apps WHERE host = asked AND host_verified_at IS NOT NULL AND deleted_at IS NULL);
BEGIN
  IF owner IS NULL OR EXISTS (SELECT FROM certificate_hosts WHERE host = asked) THEN
    RETURN owner IS NOT NULL;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('certificates ' || owner, 5310926));
  DELETE FROM certificate_hosts c WHERE c.organization_id = owner AND c.asked_at < now() - interval '1 day'
    AND NOT EXISTS (SELECT FROM apps WHERE host = c.host AND host_verified_at IS NOT NULL AND deleted_at IS NULL);
  INSERT INTO certificate_hosts (host, organization_id, is_own)
    SELECT asked, owner, own
     WHERE per_day > (SELECT count(*) FROM certificate_hosts c
                       WHERE c.organization_id = owner AND c.is_own = own AND c.asked_at > now() - interval '1 day')
    ON CONFLICT DO NOTHING;
  RETURN EXISTS (SELECT FROM certificate_hosts WHERE host = asked);
END $$;
REVOKE ALL ON FUNCTION signpost_may_get_certificate(text, boolean, integer) FROM PUBLIC;

CREATE OR REPLACE FUNCTION signpost_has_room(kind text, organization text, maximum integer)
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(kind || ' ' || organization, 5310926));
  RETURN maximum > CASE kind
    WHEN 'apps' THEN (SELECT count(*) FROM apps t WHERE t.organization_id = organization AND t.deleted_at IS NULL)
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
