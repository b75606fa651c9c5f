-- The organization to which a browser's session is limited; null: all of the person's.
ALTER TABLE browser_sessions ADD COLUMN organization_id text REFERENCES organizations ON DELETE SET NULL;
CREATE INDEX browser_sessions_organization ON browser_sessions (organization_id) WHERE organization_id IS NOT NULL;
