-- Hosts that an app has given up for another one. Its printed links still name them, so no other organization may use
-- them. Hosts of deleted apps are in apps itself.
CREATE TABLE released_hosts (
  host text NOT NULL,
  organization_id text NOT NULL REFERENCES organizations (id),
  released_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (host, organization_id)
);

-- The role of the API changes apps, and has no other access to this table.
CREATE FUNCTION signpost_note_released_host() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO released_hosts (host, organization_id) VALUES (OLD.host, OLD.organization_id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE TRIGGER apps_host_released AFTER UPDATE OF host ON apps FOR EACH ROW
  WHEN (OLD.host <> NEW.host) EXECUTE FUNCTION signpost_note_released_host();

CREATE OR REPLACE FUNCTION signpost_host_was_anothers(wanted text, mine text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NOT NULL AND organization_id <> mine)
         OR EXISTS (SELECT FROM released_hosts WHERE host = wanted AND organization_id <> mine) $$;
