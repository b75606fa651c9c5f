-- Costs of campaigns by day, as the organization uploads them. An upload removes days that are too old to be shown, and
-- an amount of 0 removes a row.
CREATE TABLE campaign_costs (
  organization_id text NOT NULL REFERENCES organizations,
  day date NOT NULL,
  campaign text NOT NULL,
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  amount numeric(38, 9) NOT NULL CHECK (amount > 0),
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (organization_id, day, campaign, currency)
);
ALTER TABLE campaign_costs ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON campaign_costs TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON campaign_costs TO signpost_api;

-- Saved questions of an organization: a name, and the parameters of an analytics request. An organization has at most
-- 500; its members delete them.
CREATE TABLE saved_views (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  name text NOT NULL,
  query jsonb NOT NULL,
  created_by text REFERENCES users ON DELETE SET NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX saved_views_organization ON saved_views (organization_id, name, id);
CREATE INDEX saved_views_creator ON saved_views (created_by);
ALTER TABLE saved_views ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON saved_views TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON saved_views TO signpost_api;

-- Rates of exchange, as an operator uploads them: the value of one unit of a currency, in a unit that is the same for
-- all rows of a day. An upload removes rates that are older than ten years.
CREATE TABLE exchange_rates (
  day date NOT NULL,
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  rate numeric(38, 15) NOT NULL CHECK (rate > 0),
  PRIMARY KEY (day, currency)
);
