-- Codes that were printed elsewhere keep working: they may be longer and shorter than new ones (common/links/short-code.ts),
-- a link may have several, and an app's codes may ignore case.
ALTER TABLE links DROP CONSTRAINT links_short_code_check;
ALTER TABLE links ADD CONSTRAINT links_short_code_check CHECK (char_length(short_code) BETWEEN 1 AND 190);

-- Further codes of a link, besides its short_code. A row lives as long as its link.
CREATE TABLE link_codes (
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps,
  code text NOT NULL CHECK (char_length(code) BETWEEN 1 AND 190),
  link_id text NOT NULL REFERENCES links ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (app_id, code)
);
CREATE INDEX link_codes_link ON link_codes (link_id);

ALTER TABLE link_codes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_codes TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON link_codes AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT, INSERT, DELETE ON link_codes TO signpost_api;

-- A code as its app stores it. The collation C changes ASCII only, as the redirector does.
CREATE FUNCTION signpost_stored_code(settings jsonb, code text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT (CASE WHEN settings ->> 'codes_ignore_case' = 'true' THEN lower(code COLLATE "C") ELSE code END) COLLATE "default" $$;

-- Across both tables a code of an app is unique. A link waits for a transaction that adds codes or changes the setting,
-- because that holds the app's row, so neither can miss the other. An insert is skipped, as by ON CONFLICT DO NOTHING.
CREATE FUNCTION signpost_keep_code() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  SELECT signpost_stored_code(settings, NEW.short_code) INTO NEW.short_code FROM apps WHERE id = NEW.app_id FOR SHARE;
  IF EXISTS (SELECT FROM link_codes WHERE app_id = NEW.app_id AND code = NEW.short_code) THEN
    IF TG_OP = 'INSERT' THEN
      RETURN NULL;
    END IF;
    RAISE unique_violation USING CONSTRAINT = 'links_short_code_key', MESSAGE = 'another link has the code';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER links_code_kept BEFORE INSERT OR UPDATE OF short_code ON links FOR EACH ROW EXECUTE FUNCTION signpost_keep_code();

CREATE FUNCTION signpost_keep_further_code() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  SELECT signpost_stored_code(settings, NEW.code) INTO NEW.code FROM apps WHERE id = NEW.app_id FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM links WHERE app_id = NEW.app_id AND short_code = NEW.code) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER link_codes_kept BEFORE INSERT ON link_codes FOR EACH ROW EXECUTE FUNCTION signpost_keep_further_code();

-- A change of a link is announced under each of its codes.
CREATE OR REPLACE FUNCTION signpost_note_link_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO outbox (kind, host, short_code)
    SELECT DISTINCT 'link', a.host, v.code
      FROM apps a CROSS JOIN (VALUES (OLD.short_code), (NEW.short_code)) AS v (code) WHERE a.id = NEW.app_id
     UNION
    SELECT 'link', a.host, c.code FROM apps a JOIN link_codes c ON c.link_id = NEW.id WHERE a.id = NEW.app_id;
  RETURN NULL;
END $$;

CREATE FUNCTION signpost_note_code_removal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO outbox (kind, host, short_code) SELECT 'link', a.host, OLD.code FROM apps a WHERE a.id = OLD.app_id;
  RETURN NULL;
END $$;
CREATE TRIGGER link_codes_removal_noted AFTER DELETE ON link_codes FOR EACH ROW EXECUTE FUNCTION signpost_note_code_removal();
