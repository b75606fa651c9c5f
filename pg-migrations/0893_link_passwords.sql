-- Links that ask for a password. The hash is kept apart from the link, so that nothing which reads or reports whole links has it.
ALTER TABLE links ADD COLUMN has_password boolean NOT NULL DEFAULT false;

CREATE TABLE link_passwords (
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps,
  link_id text PRIMARY KEY REFERENCES links ON DELETE CASCADE,
  hash text NOT NULL,
  changed_at timestamptz NOT NULL
);
ALTER TABLE link_passwords ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_passwords TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON link_passwords AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON link_passwords TO signpost_api;
