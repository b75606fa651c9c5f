-- Visits of codes that a host does not have, by day: the most visited ones, and under the empty code the sum of all others.
-- Redirectors add to them by a function that keeps the bounds; days older than 30 are removed with it.
CREATE TABLE orphan_visits (
  organization_id text NOT NULL REFERENCES organizations,
  app_id text NOT NULL REFERENCES apps ON DELETE CASCADE,
  day date NOT NULL,
  short_code text NOT NULL CHECK (char_length(short_code) <= 190),
  visits bigint NOT NULL CHECK (visits > 0),
  last_at timestamptz NOT NULL,
  PRIMARY KEY (app_id, day, short_code)
);
CREATE INDEX orphan_visits_day ON orphan_visits (day);
CREATE INDEX orphan_visits_organization ON orphan_visits (organization_id, day);

ALTER TABLE orphan_visits ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON orphan_visits TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON orphan_visits AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT ON orphan_visits TO signpost_api;

CREATE FUNCTION signpost_count_orphans(apps text[], days date[], codes text[], counts bigint[], times timestamptz[], codes_max integer)
  RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  -- One redirector at a time, so that none waits for another in a circle. The number is arbitrary.
  PERFORM pg_advisory_xact_lock(5310892);
  INSERT INTO orphan_visits AS o (organization_id, app_id, day, short_code, visits, last_at)
    SELECT a.organization_id, a.id, g.day, g.code, sum(g.visits), max(g.last_at)
      FROM unnest(apps, days, codes, counts, times) AS g (app, day, code, visits, last_at) JOIN apps a ON a.id = g.app
     WHERE g.day BETWEEN today - 1 AND today + 1 GROUP BY a.organization_id, a.id, g.day, g.code
    ON CONFLICT (app_id, day, short_code)
    DO UPDATE SET visits = o.visits + EXCLUDED.visits, last_at = greatest(o.last_at, EXCLUDED.last_at);
  WITH ranked AS (
    SELECT app_id, day, short_code,
           row_number() OVER (PARTITION BY app_id, day ORDER BY visits DESC, last_at DESC, short_code) AS place
      FROM orphan_visits
     WHERE short_code <> '' AND (app_id, day) IN (SELECT DISTINCT app, d FROM unnest(apps, days) AS g (app, d))
  ), gone AS (
    DELETE FROM orphan_visits o USING ranked r
     WHERE r.place > codes_max AND o.app_id = r.app_id AND o.day = r.day AND o.short_code = r.short_code
    RETURNING o.organization_id, o.app_id, o.day, o.visits, o.last_at
  )
  INSERT INTO orphan_visits AS o (organization_id, app_id, day, short_code, visits, last_at)
    SELECT organization_id, app_id, day, '', sum(visits), max(last_at) FROM gone GROUP BY organization_id, app_id, day
    ON CONFLICT (app_id, day, short_code)
    DO UPDATE SET visits = o.visits + EXCLUDED.visits, last_at = greatest(o.last_at, EXCLUDED.last_at);
  DELETE FROM orphan_visits WHERE day < today - 30;
END $$;
REVOKE ALL ON FUNCTION signpost_count_orphans(text[], date[], text[], bigint[], timestamptz[], integer) FROM PUBLIC;
