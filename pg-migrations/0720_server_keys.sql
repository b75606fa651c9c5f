-- Server keys: credentials of programs, which belong to an organization. The key itself is not stored. A row lives until
-- an owner deletes it, an expired one too, so that its end can be seen; an organization has at most a hundred.
CREATE TABLE server_keys (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  name text NOT NULL,
  -- SHA-256: a key has 202 random bits, so that it cannot be guessed from its hash.
  key_hash bytea NOT NULL,
  key_preview text NOT NULL,
  scopes text[] NOT NULL CHECK (cardinality(scopes) > 0),
  -- Null: every app of the organization.
  app_ids text[] CHECK (cardinality(app_ids) > 0),
  created_by text REFERENCES users ON DELETE SET NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  -- To the minute.
  last_used_at timestamptz
);
CREATE UNIQUE INDEX server_keys_hash_key ON server_keys (key_hash);
CREATE INDEX server_keys_organization ON server_keys (organization_id, created_at);
CREATE INDEX server_keys_creator ON server_keys (created_by);

ALTER TABLE server_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON server_keys TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
GRANT SELECT, INSERT, DELETE ON server_keys TO signpost_api;

-- The apps to which a key is restricted, beside the organizations of the caller. Null: no restriction.
CREATE FUNCTION signpost_apps() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT string_to_array(nullif(current_setting('signpost.app_ids', true), ''), ',') $$;
GRANT EXECUTE ON FUNCTION signpost_apps() TO signpost_api;
CREATE POLICY allowed_apps ON apps AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON links AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON link_counts AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON link_tags AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON host_checks AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));

-- As before, with the restriction.
CREATE OR REPLACE FUNCTION signpost_links_matching(pattern text)
  RETURNS TABLE (id text, organization_id text, app_id text, archived boolean, campaign text, created_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public ROWS 1000 AS
  $$ SELECT l.id, l.organization_id, l.app_id, l.archived, l.campaign, l.created_at
       FROM unnest(signpost_organizations()) AS o (id) JOIN links l ON l.organization_id = o.id
      WHERE l.deleted_at IS NULL AND signpost_link_text(l.short_code, l.path, l.title, l.campaign) LIKE lower(pattern)
        AND ((SELECT signpost_apps()) IS NULL OR l.app_id = ANY ((SELECT signpost_apps())::text[])) $$;
