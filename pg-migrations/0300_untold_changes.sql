-- Changes that redirectors have not received yet: written by the change's own transaction, deleted once Redis has
-- accepted it. Rows are useful as long as caches may hold the previous value, for minutes, and are dropped after that.
CREATE TABLE untold_changes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('link', 'app')),
  host text NOT NULL,
  -- Empty for an app.
  short_code text NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);

-- The role of the API may change apps and links, and has no other access to this table.
CREATE FUNCTION signpost_note_app_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO untold_changes (kind, host, short_code) SELECT DISTINCT 'app', host, '' FROM (VALUES (OLD.host), (NEW.host)) AS v (host);
  RETURN NULL;
END $$;
CREATE FUNCTION signpost_note_link_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO untold_changes (kind, host, short_code)
    SELECT DISTINCT 'link', a.host, v.short_code
      FROM apps a CROSS JOIN (VALUES (OLD.short_code), (NEW.short_code)) AS v (short_code) WHERE a.id = NEW.app_id;
  RETURN NULL;
END $$;

CREATE TRIGGER apps_change_noted AFTER UPDATE ON apps FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION signpost_note_app_change();
CREATE TRIGGER links_change_noted AFTER UPDATE ON links FOR EACH ROW
  WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION signpost_note_link_change();
