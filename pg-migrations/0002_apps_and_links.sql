-- Apps and their links. Columns are spelled like the fields of the API.

CREATE TABLE apps (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
  -- The short-link host, lower case, without scheme and port.
  host text NOT NULL CHECK (host = lower(host) AND char_length(host) BETWEEN 1 AND 253),
  ios jsonb,
  android jsonb,
  fallback_url text,
  allowed_destination_hosts text[] NOT NULL DEFAULT '{}',
  settings jsonb NOT NULL,
  -- The API key as ciphertext ("key id.base64url"), and the keyed hash under which it is looked up.
  api_key_ciphertext text NOT NULL,
  api_key_hash bytea NOT NULL,
  api_key_preview text NOT NULL,
  -- Increases by one with each change; a cached copy of a lower version is never used.
  version bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz
);
CREATE UNIQUE INDEX apps_host_key ON apps (host) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX apps_api_key_hash_key ON apps (api_key_hash);
CREATE INDEX apps_by_organization ON apps (organization_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX apps_host_of_deleted ON apps (host) WHERE deleted_at IS NOT NULL;

CREATE TABLE links (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps,
  short_code text NOT NULL CHECK (char_length(short_code) BETWEEN 3 AND 64),
  path text NOT NULL,
  campaign text,
  source text NOT NULL CHECK (source IN ('dashboard', 'sdk')),
  archived boolean NOT NULL DEFAULT false,
  title text,
  data jsonb NOT NULL DEFAULT '{}',
  tags text[] NOT NULL DEFAULT '{}',
  external_id text,
  ios_url text,
  android_url text,
  fallback_url text,
  utm_source text,
  utm_medium text,
  utm_campaign text,
  utm_term text,
  utm_content text,
  og_title text,
  og_description text,
  og_image_url text,
  expires_at timestamptz,
  expired_url text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz
);
-- Includes deleted links: a code is never reused.
CREATE UNIQUE INDEX links_short_code_key ON links (app_id, short_code);
CREATE UNIQUE INDEX links_external_id_key ON links (app_id, external_id) WHERE deleted_at IS NULL AND external_id IS NOT NULL;
-- Each list is answered from one of these without reading the table, whatever the offset.
CREATE INDEX links_by_organization ON links (organization_id, created_at DESC, id DESC) INCLUDE (app_id, archived)
  WHERE deleted_at IS NULL;
CREATE INDEX links_by_app ON links (organization_id, app_id, created_at DESC, id DESC) INCLUDE (archived)
  WHERE deleted_at IS NULL;
CREATE INDEX links_by_campaign ON links (organization_id, campaign, created_at DESC, id DESC) INCLUDE (app_id, archived)
  WHERE deleted_at IS NULL AND campaign IS NOT NULL;

-- Counting 100,000 links for pagination.total costs more than the page itself, so the counts are stored.
CREATE TABLE link_counts (
  organization_id text NOT NULL,
  app_id text PRIMARY KEY REFERENCES apps ON DELETE CASCADE,
  active bigint NOT NULL DEFAULT 0,
  archived bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX link_counts_organization ON link_counts (organization_id);

-- Row-level security hides the operators of a GIN index on links.tags from the planner, so tags have their own rows,
-- with the other columns by which a list filters.
CREATE TABLE link_tags (
  organization_id text NOT NULL,
  tag text NOT NULL,
  created_at timestamptz NOT NULL,
  link_id text NOT NULL REFERENCES links ON DELETE CASCADE,
  app_id text NOT NULL,
  archived boolean NOT NULL,
  PRIMARY KEY (organization_id, tag, created_at, link_id) INCLUDE (app_id, archived)
);
CREATE INDEX link_tags_link ON link_tags (link_id);

CREATE FUNCTION signpost_count_links_inserted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  INSERT INTO link_counts AS c (organization_id, app_id, active, archived)
    SELECT organization_id, app_id, count(*) FILTER (WHERE NOT archived), count(*) FILTER (WHERE archived)
      FROM inserted WHERE deleted_at IS NULL GROUP BY organization_id, app_id ORDER BY app_id
    ON CONFLICT (app_id) DO UPDATE SET active = c.active + EXCLUDED.active, archived = c.archived + EXCLUDED.archived;
  INSERT INTO link_tags (organization_id, tag, created_at, link_id, app_id, archived)
    SELECT DISTINCT i.organization_id, t.tag, i.created_at, i.id, i.app_id, i.archived FROM inserted i CROSS JOIN LATERAL unnest(i.tags) AS t (tag)
     WHERE i.deleted_at IS NULL AND i.tags <> '{}';
  RETURN NULL;
END $$;

CREATE FUNCTION signpost_count_links_updated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  UPDATE link_counts c SET active = c.active + d.active, archived = c.archived + d.archived
    FROM (SELECT app_id,
                 coalesce(sum(sign) FILTER (WHERE NOT archived), 0)::bigint AS active,
                 coalesce(sum(sign) FILTER (WHERE archived), 0)::bigint AS archived
            FROM (SELECT app_id, archived, 1 AS sign FROM new_rows WHERE deleted_at IS NULL
                  UNION ALL SELECT app_id, archived, -1 FROM old_rows WHERE deleted_at IS NULL) AS changes
           GROUP BY app_id) AS d
   WHERE c.app_id = d.app_id AND (d.active <> 0 OR d.archived <> 0);
  DELETE FROM link_tags t USING old_rows o JOIN new_rows n USING (id)
   WHERE t.link_id = o.id
     AND (o.tags <> n.tags OR o.archived <> n.archived OR (o.deleted_at IS NULL) <> (n.deleted_at IS NULL));
  INSERT INTO link_tags (organization_id, tag, created_at, link_id, app_id, archived)
    SELECT DISTINCT n.organization_id, t.tag, n.created_at, n.id, n.app_id, n.archived
      FROM new_rows n JOIN old_rows o USING (id) CROSS JOIN LATERAL unnest(n.tags) AS t (tag)
     WHERE n.deleted_at IS NULL
       AND (o.tags <> n.tags OR o.archived <> n.archived OR (o.deleted_at IS NULL) <> (n.deleted_at IS NULL));
  RETURN NULL;
END $$;

CREATE TRIGGER links_inserted AFTER INSERT ON links REFERENCING NEW TABLE AS inserted
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_count_links_inserted();
CREATE TRIGGER links_updated AFTER UPDATE ON links REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_count_links_updated();

-- What ?search= searches. A newline between the fields, so that no match spans two of them.
CREATE FUNCTION signpost_link_text(short_code text, path text, title text, campaign text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT lower(short_code || E'\n' || path || E'\n' || coalesce(title, '') || E'\n' || coalesce(campaign, '')) $$;

-- Trigrams make ?search= fast, within one organization (btree_gin); a server without the two extensions answers it by
-- reading the organization's links.
DO $$
BEGIN
  IF (SELECT count(*) FROM pg_available_extensions WHERE name IN ('pg_trgm', 'btree_gin')) = 2 THEN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    CREATE EXTENSION IF NOT EXISTS btree_gin;
    CREATE INDEX links_text ON links USING gin (organization_id, signpost_link_text(short_code, path, title, campaign) gin_trgm_ops)
      WHERE deleted_at IS NULL;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'pg_trgm and btree_gin may not be created by %; ?search= on links will be slower', current_user;
END $$;
