-- How accounts end, with effect from the next request on.

ALTER TABLE users
  -- Set while an operator blocks the user; nothing else of the account changes.
  ADD COLUMN disabled_at timestamptz,
  -- Access tokens issued before it are refused: a new password, or the end of an account, invalidates them immediately.
  ADD COLUMN not_before timestamptz;

-- A deleted organization has no members and no active apps. Its row stays for as long as its apps' records do.
ALTER TABLE organizations ADD COLUMN deleted_at timestamptz;

-- Nothing is created for an organization that is being deleted: whichever of the two comes second sees the first.
CREATE FUNCTION signpost_refuse_deleted_organization() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  PERFORM FROM organizations WHERE id = NEW.organization_id AND deleted_at IS NULL FOR SHARE;
  IF NOT FOUND THEN
    RAISE foreign_key_violation USING CONSTRAINT = 'apps_organization_lives', MESSAGE = 'the organization is deleted';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER apps_organization_lives BEFORE INSERT ON apps FOR EACH ROW EXECUTE FUNCTION signpost_refuse_deleted_organization();

-- A change of an app that was not made through the API must reach the copies in Redis as well: which app, its lowest
-- valid version, and the key of the copy.
ALTER TABLE untold_changes ADD COLUMN app_id text, ADD COLUMN version bigint, ADD COLUMN api_key_hash bytea;

CREATE OR REPLACE FUNCTION signpost_note_app_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO untold_changes (kind, host, short_code, app_id, version, api_key_hash)
    SELECT DISTINCT 'app', host, '', NEW.id, NEW.version, OLD.api_key_hash FROM (VALUES (OLD.host), (NEW.host)) AS v (host);
  RETURN NULL;
END $$;
