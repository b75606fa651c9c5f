-- Copies of Apple's postbacks. Redirectors add them by a function that assigns them to an app and keeps the bounds.
CREATE TABLE ad_postbacks (
  id bigint GENERATED ALWAYS AS IDENTITY,
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps ON DELETE CASCADE,
  framework text NOT NULL CHECK (framework IN ('skadnetwork', 'adattributionkit')),
  transaction_id text NOT NULL,
  -- Of the conversion window; 0 where there is only one.
  sequence_index smallint NOT NULL,
  -- No finer than a cursor can say.
  received_at timestamptz(3) NOT NULL DEFAULT now(),
  -- Why it is not verified; null: it is.
  unverified_reason text,
  version text,
  ad_network_id text,
  campaign_id integer,
  source_identifier text,
  source_app_id text,
  source_domain text,
  marketplace_id text,
  conversion_type text,
  did_win boolean,
  fidelity_type smallint,
  ad_interaction_type text,
  conversion_value smallint,
  coarse_conversion_value text,
  country_code text,
  PRIMARY KEY (app_id, framework, transaction_id, sequence_index)
);
CREATE INDEX ad_postbacks_newest ON ad_postbacks (app_id, received_at, id);
CREATE INDEX ad_postbacks_oldest ON ad_postbacks (received_at);

ALTER TABLE ad_postbacks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ad_postbacks TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON ad_postbacks AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT ON ad_postbacks TO signpost_api;

-- How many an app got on the day of its last one. Only the function reads and writes it.
CREATE TABLE ad_postbacks_stored (
  app_id text PRIMARY KEY REFERENCES apps ON DELETE CASCADE,
  day date NOT NULL,
  verified integer NOT NULL,
  unverified integer NOT NULL
);
ALTER TABLE ad_postbacks_stored ENABLE ROW LEVEL SECURITY;

-- 'stored', 'known' (there is such a postback), 'other_app' (none of the organization has this App Store id), 'limit' (a day has
-- room for 20,000 verified ones and 50 others of an app).
CREATE FUNCTION signpost_store_ad_postback(host_app text, app_store_id text, fields jsonb)
  RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  is_verified boolean := fields ->> 'unverified_reason' IS NULL;
  app record;
  known record;
BEGIN
  IF octet_length(fields::text) > 8192 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'this is no postback';
  END IF;
  -- Devices send to the registrable domain, which several apps of an organization may share.
  SELECT a.id, a.organization_id INTO app FROM apps h JOIN apps a ON a.organization_id = h.organization_id
   WHERE h.id = host_app AND h.deleted_at IS NULL AND h.host_verified_at IS NOT NULL
     AND a.deleted_at IS NULL AND a.ios ->> 'app_store_id' = app_store_id
   ORDER BY a.id <> host_app, a.id LIMIT 1;
  IF NOT FOUND THEN
    RETURN 'other_app';
  END IF;
  SELECT p.unverified_reason IS NULL AS is_verified INTO known FROM ad_postbacks p
   WHERE p.app_id = app.id AND p.framework = fields ->> 'framework' AND p.transaction_id = fields ->> 'transaction_id'
     AND p.sequence_index = (fields ->> 'sequence_index')::smallint;
  IF FOUND AND (known.is_verified OR NOT is_verified) THEN
    RETURN 'known';
  END IF;
  -- The row also makes postbacks of one app wait for each other.
  INSERT INTO ad_postbacks_stored AS s (app_id, day, verified, unverified)
    VALUES (app.id, today, is_verified::integer, (NOT is_verified)::integer)
    ON CONFLICT (app_id) DO UPDATE SET day = today,
      verified = CASE WHEN s.day = today THEN s.verified ELSE 0 END + EXCLUDED.verified,
      unverified = CASE WHEN s.day = today THEN s.unverified ELSE 0 END + EXCLUDED.unverified
    WHERE s.day <> today OR CASE WHEN is_verified THEN s.verified < 20000 ELSE s.unverified < 50 END;
  IF NOT FOUND THEN
    RETURN 'limit';
  END IF;
  -- A verified one replaces one that was not: otherwise, whoever guesses an id could keep the real one out.
  INSERT INTO ad_postbacks AS p (organization_id, app_id, framework, transaction_id, sequence_index, unverified_reason, version,
      ad_network_id, campaign_id, source_identifier, source_app_id, source_domain, marketplace_id, conversion_type, did_win,
      fidelity_type, ad_interaction_type, conversion_value, coarse_conversion_value, country_code)
    SELECT app.organization_id, app.id, f.* FROM jsonb_to_record(fields) AS f (
      framework text, transaction_id text, sequence_index smallint, unverified_reason text, version text,
      ad_network_id text, campaign_id integer, source_identifier text, source_app_id text, source_domain text, marketplace_id text,
      conversion_type text, did_win boolean, fidelity_type smallint, ad_interaction_type text, conversion_value smallint,
      coarse_conversion_value text, country_code text)
    ON CONFLICT (app_id, framework, transaction_id, sequence_index) DO UPDATE SET
      received_at = now(), unverified_reason = NULL, version = EXCLUDED.version, ad_network_id = EXCLUDED.ad_network_id,
      campaign_id = EXCLUDED.campaign_id, source_identifier = EXCLUDED.source_identifier, source_app_id = EXCLUDED.source_app_id,
      source_domain = EXCLUDED.source_domain, marketplace_id = EXCLUDED.marketplace_id, conversion_type = EXCLUDED.conversion_type,
      did_win = EXCLUDED.did_win, fidelity_type = EXCLUDED.fidelity_type, ad_interaction_type = EXCLUDED.ad_interaction_type,
      conversion_value = EXCLUDED.conversion_value, coarse_conversion_value = EXCLUDED.coarse_conversion_value,
      country_code = EXCLUDED.country_code
    WHERE p.unverified_reason IS NOT NULL AND EXCLUDED.unverified_reason IS NULL;
  IF NOT FOUND THEN
    RETURN 'known';
  END IF;
  -- Each makes room for itself, so no request deletes many.
  DELETE FROM ad_postbacks WHERE (app_id, framework, transaction_id, sequence_index) IN (
    SELECT p.app_id, p.framework, p.transaction_id, p.sequence_index FROM ad_postbacks p
     WHERE p.received_at < now() - interval '180 days' ORDER BY p.received_at LIMIT 10 FOR UPDATE SKIP LOCKED);
  RETURN 'stored';
END $$;
REVOKE ALL ON FUNCTION signpost_store_ad_postback(text, text, jsonb) FROM PUBLIC;
