-- Renames the table of changes that are not yet delivered to every cache to the standard term, outbox.

ALTER TABLE untold_changes RENAME TO outbox;
ALTER TABLE outbox RENAME CONSTRAINT untold_changes_kind_check TO outbox_kind_check;
ALTER INDEX untold_changes_pkey RENAME TO outbox_pkey;
ALTER SEQUENCE untold_changes_id_seq RENAME TO outbox_id_seq;

CREATE OR REPLACE FUNCTION signpost_note_app_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO outbox (kind, host, short_code, app_id, version, api_key_hash)
    SELECT DISTINCT 'app', host, '', NEW.id, NEW.version, OLD.api_key_hash FROM (VALUES (OLD.host), (NEW.host)) AS v (host);
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION signpost_note_link_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO outbox (kind, host, short_code)
    SELECT DISTINCT 'link', a.host, v.short_code
      FROM apps a CROSS JOIN (VALUES (OLD.short_code), (NEW.short_code)) AS v (short_code) WHERE a.id = NEW.app_id;
  RETURN NULL;
END $$;
