-- Figures of a link or of a campaign that anyone may read who has the page's address. The address contains a token, of
-- which only the hash is stored. A new page deletes those of its organization that expired a month ago; an organization
-- has at most 200.
CREATE TABLE shared_pages (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  link_id text REFERENCES links ON DELETE CASCADE,
  campaign text,
  -- What visitors read above the figures.
  name text NOT NULL,
  token_hash bytea NOT NULL,
  -- A PHC string of argon2id.
  password_hash text,
  shows_revenue boolean NOT NULL,
  created_by text REFERENCES users ON DELETE SET NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  CHECK ((link_id IS NULL) <> (campaign IS NULL))
);
CREATE UNIQUE INDEX shared_pages_token_hash_key ON shared_pages (token_hash);
CREATE INDEX shared_pages_organization ON shared_pages (organization_id, created_at DESC, id DESC);
CREATE INDEX shared_pages_link ON shared_pages (link_id) WHERE link_id IS NOT NULL;
CREATE INDEX shared_pages_creator ON shared_pages (created_by) WHERE created_by IS NOT NULL;
ALTER TABLE shared_pages ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON shared_pages TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
GRANT SELECT, INSERT, DELETE ON shared_pages TO signpost_api;
