-- A host is served once it is proven to be its organization's: it is under the installation's own domain, a TXT record
-- of its DNS names the app, or an operator confirms it.

ALTER TABLE apps ADD COLUMN host_verified_at timestamptz;
-- What is served today continues to be served.
ALTER TABLE apps DISABLE TRIGGER USER;
UPDATE apps SET host_verified_at = created_at;
ALTER TABLE apps ENABLE TRIGGER USER;

-- A claim without proof blocks no other: a host is unique among those that are served.
DROP INDEX apps_host_key;
CREATE UNIQUE INDEX apps_host_key ON apps (host) WHERE deleted_at IS NULL AND host_verified_at IS NOT NULL;
CREATE INDEX apps_host_claimed ON apps (host) WHERE deleted_at IS NULL AND host_verified_at IS NULL;

-- Hosts that wait for their proof: one row per active app whose host is not verified, maintained by the trigger below.
CREATE TABLE host_checks (
  app_id text PRIMARY KEY REFERENCES apps ON DELETE CASCADE,
  organization_id text NOT NULL,
  host text NOT NULL,
  claimed_at timestamptz NOT NULL DEFAULT now(),
  -- When it is checked next; a process postpones it before checking, so that no two check it.
  due_at timestamptz NOT NULL DEFAULT now(),
  checked_at timestamptz,
  -- Why the last check found no proof.
  problem text CHECK (problem IN ('record_missing', 'record_differs', 'dns_unavailable', 'taken'))
);
CREATE INDEX host_checks_due ON host_checks (due_at);

CREATE FUNCTION signpost_note_host_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  IF NEW.deleted_at IS NOT NULL OR NEW.host_verified_at IS NOT NULL THEN
    DELETE FROM host_checks WHERE app_id = NEW.id;
    RETURN NULL;
  END IF;
  INSERT INTO host_checks AS c (app_id, organization_id, host) VALUES (NEW.id, NEW.organization_id, NEW.host)
    ON CONFLICT (app_id) DO UPDATE SET host = EXCLUDED.host, claimed_at = now(), due_at = now(), checked_at = NULL, problem = NULL
      WHERE c.host <> EXCLUDED.host;
  RETURN NULL;
END $$;
CREATE TRIGGER apps_host_claimed_noted AFTER INSERT OR UPDATE OF host, host_verified_at, deleted_at ON apps
  FOR EACH ROW EXECUTE FUNCTION signpost_note_host_claim();

GRANT SELECT ON host_checks TO signpost_api;
ALTER TABLE host_checks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON host_checks TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));

-- Only a host that was served has printed links to protect.
CREATE OR REPLACE FUNCTION signpost_note_released_host() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  IF OLD.host_verified_at IS NOT NULL THEN
    INSERT INTO released_hosts (host, organization_id) VALUES (OLD.host, OLD.organization_id) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

-- Whether an app (null: a new one) of this organization may not have the host: it is served for another app, another
-- organization's printed links name it, or another app of the same organization waits for its proof.
CREATE FUNCTION signpost_host_is_taken(wanted text, mine text, app text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NULL AND host_verified_at IS NOT NULL AND id IS DISTINCT FROM app)
         OR EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NULL AND host_verified_at IS NULL AND organization_id = mine AND id IS DISTINCT FROM app)
         OR EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NOT NULL AND host_verified_at IS NOT NULL AND organization_id <> mine)
         OR EXISTS (SELECT FROM released_hosts WHERE host = wanted AND organization_id <> mine) $$;
REVOKE ALL ON FUNCTION signpost_host_is_taken(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_host_is_taken(text, text, text) TO signpost_api;
DROP FUNCTION signpost_host_was_anothers(text, text);
