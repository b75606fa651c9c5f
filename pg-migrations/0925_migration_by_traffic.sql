-- Links that were learned from the service that an app leaves, and the codes of which it knew no link that can be one here.
ALTER TABLE links DROP CONSTRAINT links_source_check;
ALTER TABLE links ADD CONSTRAINT links_source_check CHECK (source IN ('dashboard', 'sdk', 'import', 'visit', 'learned'));

-- The last codes of an app that could not be learned. The API keeps at most 1000 of an app, for 30 days.
CREATE TABLE unlearned_codes (
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps ON DELETE CASCADE,
  short_code text NOT NULL CHECK (char_length(short_code) <= 190),
  reason text NOT NULL CHECK (char_length(reason) <= 40),
  -- A host, a status, a problem of the connection.
  detail text CHECK (char_length(detail) <= 253),
  asks integer NOT NULL CHECK (asks > 0),
  last_at timestamptz NOT NULL,
  PRIMARY KEY (app_id, short_code)
);
CREATE INDEX unlearned_codes_age ON unlearned_codes (app_id, last_at);

-- How often the old service was asked in vain, by day.
CREATE TABLE unlearned_counts (
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps ON DELETE CASCADE,
  day date NOT NULL,
  reason text NOT NULL CHECK (char_length(reason) <= 40),
  asks bigint NOT NULL CHECK (asks > 0),
  PRIMARY KEY (app_id, day, reason)
);

ALTER TABLE unlearned_codes ENABLE ROW LEVEL SECURITY;
ALTER TABLE unlearned_counts ENABLE ROW LEVEL SECURITY;
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['unlearned_codes', 'unlearned_counts'] LOOP
    EXECUTE format('CREATE POLICY tenant ON %I TO signpost_api
      USING (organization_id = ANY ((SELECT signpost_organizations())::text[]))', name);
    EXECUTE format('CREATE POLICY allowed_apps ON %I AS RESTRICTIVE TO signpost_api
      USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]))', name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO signpost_api', name);
  END LOOP;
END $$;
