-- Imports of links from other services. A file is uploaded in parts; a dry run stores one row for each of its lines; then
-- the rows are imported in chunks, and can be taken back. Each step moves its position in the transaction of its work.
ALTER TABLE links DROP CONSTRAINT links_source_check;
ALTER TABLE links ADD CONSTRAINT links_source_check CHECK (source IN ('dashboard', 'sdk', 'import'));
-- Clicks that another service counted. No figure of our own contains them.
ALTER TABLE links ADD COLUMN clicks_before bigint CHECK (clicks_before >= 0);

CREATE TABLE imports (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps,
  source text NOT NULL,
  options jsonb NOT NULL,
  state text NOT NULL DEFAULT 'uploading'
    CHECK (state IN ('uploading', 'checking', 'checked', 'failed', 'importing', 'imported', 'undoing', 'undone')),
  -- Why the file cannot be read.
  problem text,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  bytes bigint NOT NULL DEFAULT 0,
  parts integer NOT NULL DEFAULT 0,
  -- Rows by outcome and by result.
  counts jsonb NOT NULL DEFAULT '{}',
  -- What the dry run read: bytes, the line after them, rows, and what it learned from the first line.
  bytes_read bigint NOT NULL DEFAULT 0,
  lines_read integer NOT NULL DEFAULT 0,
  rows_read integer NOT NULL DEFAULT 0,
  layout jsonb,
  -- The last row that was imported, or taken back.
  rows_done integer NOT NULL DEFAULT 0,
  -- The process that works on it, until then.
  worker text,
  worker_until timestamptz
);
CREATE INDEX imports_by_organization ON imports (organization_id, created_at DESC, id DESC);
CREATE INDEX imports_due ON imports (updated_at) WHERE state IN ('checking', 'importing', 'undoing');
CREATE INDEX imports_by_age ON imports (updated_at);

-- Removed once the dry run has read them.
CREATE TABLE import_parts (
  import_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  number integer NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (import_id, number)
);

CREATE TABLE import_rows (
  import_id text NOT NULL REFERENCES imports ON DELETE CASCADE,
  organization_id text NOT NULL,
  app_id text NOT NULL,
  number integer NOT NULL,
  line integer NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('new', 'same', 'conflict', 'unsupported')),
  codes text[] NOT NULL,
  field text,
  reason text,
  message text,
  -- What to store, for new ones.
  link jsonb,
  -- The link that was created, or the one that has the code already.
  link_id text,
  -- The link's updated_at when it was created: another one means that it was changed since.
  stored_at timestamptz,
  result text CHECK (result IN ('created', 'conflict', 'removed', 'kept')),
  PRIMARY KEY (import_id, number)
);
CREATE INDEX import_rows_outcome ON import_rows (import_id, outcome, number);
-- An undo goes from its links to their rows.
CREATE INDEX import_rows_link ON import_rows (link_id) WHERE link_id IS NOT NULL;
CREATE INDEX import_rows_codes ON import_rows USING gin (codes) WHERE outcome = 'new';

ALTER TABLE imports ENABLE ROW LEVEL SECURITY;
ALTER TABLE import_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE import_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON imports TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON import_parts TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY tenant ON import_rows TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON imports AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON import_parts AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps ON import_rows AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON imports, import_parts, import_rows TO signpost_api;

-- Links of an import that nobody has changed since, and that were marked as deleted before, so that their counts, tags and
-- announcements are settled. Their codes are free again.
CREATE FUNCTION signpost_remove_imported(of_import text, wanted text[]) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = public AS
  $$ DELETE FROM links l USING import_rows r
      WHERE l.id = ANY (wanted) AND l.deleted_at IS NOT NULL AND l.source = 'import' AND l.organization_id = ANY (signpost_organizations())
        AND r.import_id = of_import AND r.link_id = l.id AND r.result = 'created' AND r.organization_id = l.organization_id $$;
REVOKE ALL ON FUNCTION signpost_remove_imported(text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_remove_imported(text, text[]) TO signpost_api;
