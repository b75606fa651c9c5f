-- The second barrier between tenants. The API runs its queries on apps and links as signpost_api, which sees only the
-- rows of the organizations named in the transaction's setting signpost.organization_ids, whatever the query says.

-- Roles belong to the whole server, so another of its databases may already have created this one, or be creating it
-- now.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'signpost_api') THEN
    CREATE ROLE signpost_api NOLOGIN NOINHERIT;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'the role signpost_api is missing and % may not create it', current_user
      USING HINT = format('As an administrator, once: CREATE ROLE signpost_api NOLOGIN NOINHERIT; GRANT signpost_api TO %I;', current_user);
END $$;
DO $$
BEGIN
  -- A superuser may assume any role; every other user needs the grant.
  IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    BEGIN
      EXECUTE format('GRANT signpost_api TO %I', current_user);
    EXCEPTION WHEN insufficient_privilege THEN
      IF NOT pg_has_role(current_user, 'signpost_api', 'MEMBER') THEN RAISE; END IF;
    END;
  END IF;
END $$;

GRANT USAGE ON SCHEMA public TO signpost_api;
GRANT SELECT, INSERT, UPDATE ON apps, links TO signpost_api;
GRANT SELECT ON link_counts, link_tags TO signpost_api;

CREATE FUNCTION signpost_organizations() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT string_to_array(current_setting('signpost.organization_ids', true), ',') $$;

ALTER TABLE apps ENABLE ROW LEVEL SECURITY;
ALTER TABLE links ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_tags ENABLE ROW LEVEL SECURITY;
-- The inner SELECT is evaluated once per query, not once per row.
CREATE POLICY tenant ON apps TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON links TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON link_counts TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON link_tags TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));

-- Exceptions to that barrier, each limited to its purpose.

-- The owner of an entity: distinguishes one of another organization (403) from an unknown one (404). Null for the
-- latter.
CREATE FUNCTION signpost_owner_of_app(wanted text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT organization_id FROM apps WHERE id = wanted AND deleted_at IS NULL $$;
CREATE FUNCTION signpost_owner_of_link(wanted text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT l.organization_id FROM links l JOIN apps a ON a.id = l.app_id
      WHERE l.id = wanted AND l.deleted_at IS NULL AND a.deleted_at IS NULL $$;

-- Whether a host was another organization's, whose printed links must never lead somewhere else.
CREATE FUNCTION signpost_host_was_anothers(wanted text, mine text) RETURNS boolean
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT EXISTS (SELECT FROM apps WHERE host = wanted AND deleted_at IS NOT NULL AND organization_id <> mine) $$;

-- The caller's links whose text matches a LIKE pattern, case-insensitively, with the other columns by which a list
-- filters. Row-level security would prevent the use of the trigram index, so this function applies the same restriction
-- itself.
CREATE FUNCTION signpost_links_matching(pattern text)
  RETURNS TABLE (id text, organization_id text, app_id text, archived boolean, campaign text, created_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public ROWS 1000 AS
  $$ SELECT l.id, l.organization_id, l.app_id, l.archived, l.campaign, l.created_at
       FROM unnest(signpost_organizations()) AS o (id) JOIN links l ON l.organization_id = o.id
      WHERE l.deleted_at IS NULL AND signpost_link_text(l.short_code, l.path, l.title, l.campaign) LIKE lower(pattern) $$;

REVOKE ALL ON FUNCTION signpost_owner_of_app(text), signpost_owner_of_link(text), signpost_host_was_anothers(text, text),
  signpost_links_matching(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_owner_of_app(text), signpost_owner_of_link(text), signpost_host_was_anothers(text, text),
  signpost_links_matching(text), signpost_organizations() TO signpost_api;
