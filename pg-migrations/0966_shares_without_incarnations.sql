-- Redirectors no longer wait for each other: after a restore of Postgres, a link may exceed max_clicks by what was granted since the
-- backup. A redirector that is silent for ten minutes is gone: what it held counts as used, until it reports again.
ALTER TABLE click_holders
  -- It left, was silent, or another file took its place.
  ADD COLUMN gone_at timestamptz;
UPDATE click_holders SET gone_at = reported_at WHERE has_left;
ALTER TABLE click_holders DROP COLUMN incarnation, DROP COLUMN has_left;
INSERT INTO click_holders (holder, machine, instance, reported_at, gone_at)
  SELECT DISTINCT s.holder, '', '', now(), now() FROM click_shares s
   WHERE NOT EXISTS (SELECT FROM click_holders h WHERE h.holder = s.holder);

-- Registers the holder and merges its figures, which only grow. Returns rows:
--   wanted    a link that others ask for, with what the holder was granted and has used of it according to Postgres
--   given_up  a redirector that is gone now, with the clicks that it held
--   unknown   a link with clicks that Postgres did not know to be granted: it was restored to an earlier state
CREATE FUNCTION signpost_report_clicks(p_holder text, p_machine text, p_instance text, p_leaves boolean,
    p_links text[], p_granted bigint[], p_returned bigint[], p_used bigint[])
  RETURNS TABLE (kind text, name text, granted bigint, used bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
  old text;
BEGIN
  IF EXISTS (SELECT FROM click_holders WHERE holder = p_holder AND gone_at IS NOT NULL) THEN
    UPDATE click_shares SET is_given_up = false WHERE holder = p_holder AND is_given_up;
  END IF;
  INSERT INTO click_holders (holder, machine, instance, reported_at) VALUES (p_holder, p_machine, p_instance, now())
    ON CONFLICT (holder) DO UPDATE SET machine = EXCLUDED.machine, instance = EXCLUDED.instance,
      reported_at = EXCLUDED.reported_at, gone_at = NULL;
  RETURN QUERY
    WITH gone AS (
      UPDATE click_holders SET gone_at = now() WHERE holder IN (
        SELECT h.holder FROM click_holders h WHERE h.holder <> p_holder AND h.gone_at IS NULL
           AND ((h.machine = p_machine AND h.instance = p_instance)
             OR h.reported_at NOT BETWEEN now() - interval '10 minutes' AND now() + interval '10 minutes')
           FOR UPDATE SKIP LOCKED)
      RETURNING holder, machine, instance
    ), given_up AS (
      UPDATE click_shares s SET is_given_up = true, is_wanted = false FROM gone g
       WHERE s.holder = g.holder AND s.granted - s.returned > s.used AND NOT s.is_given_up
      RETURNING g.machine || '/' || g.instance AS redirector, s.granted - s.returned - s.used AS held
    ) SELECT 'given_up', g.redirector, sum(g.held)::bigint, 0::bigint FROM given_up g GROUP BY g.redirector;
  RETURN QUERY
    WITH reported AS (
      SELECT l.organization_id, l.app_id, g.* FROM unnest(p_links, p_granted, p_returned, p_used) AS g (link, granted, returned, used)
        JOIN links l ON l.id = g.link AND l.deleted_at IS NULL
    ), merged AS (
      INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
        SELECT r.organization_id, r.app_id, r.link, p_holder, r.granted, r.returned, r.used FROM reported r
        ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
          returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used)
    ) SELECT 'unknown', r.link, r.granted - coalesce(s.granted, 0), 0::bigint
        FROM reported r LEFT JOIN click_shares s ON s.link_id = r.link AND s.holder = p_holder
       WHERE r.granted > coalesce(s.granted, 0);
  IF p_leaves THEN
    -- Also a grant whose answer was lost.
    UPDATE click_shares SET returned = granted - used WHERE holder = p_holder AND granted - returned > used;
    UPDATE click_holders SET gone_at = now() WHERE holder = p_holder;
  END IF;
  RETURN QUERY UPDATE click_shares s SET is_wanted = false WHERE s.holder = p_holder AND s.is_wanted
    RETURNING 'wanted', s.link_id, s.granted, s.used;
  -- The rows of a holder that has been gone for 90 days become part of one row per link.
  SELECT holder INTO old FROM click_holders WHERE gone_at < now() - interval '90 days' LIMIT 1;
  IF old IS NOT NULL AND pg_try_advisory_xact_lock(5310966) THEN
    WITH moved AS (
      DELETE FROM click_shares s WHERE s.holder = old AND s.link_id IN (
        SELECT x.link_id FROM click_shares x WHERE x.holder = old LIMIT 1000) RETURNING s.*
    ) INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used, is_given_up)
      SELECT m.organization_id, m.app_id, m.link_id, '', m.granted - m.returned, 0, m.used, true FROM moved m
      ON CONFLICT (link_id, holder) DO UPDATE SET granted = s.granted + EXCLUDED.granted, used = s.used + EXCLUDED.used;
    IF NOT FOUND THEN
      DELETE FROM click_holders WHERE holder = old;
    END IF;
  END IF;
END $$;

-- Grants a share to a registered holder. The answer has all figures of the holder, so an answer that was lost is repeated, and the
-- holder may forget a share that is used up and reported. p_waiting visitors wait for it: they may get all that is left.
-- open_elsewhere: clicks that other redirectors hold and may return.
CREATE FUNCTION signpost_grant_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint,
    p_share_max integer, p_waiting integer)
  RETURNS TABLE (is_granted boolean, granted bigint, returned bigint, used bigint, open_elsewhere bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
DECLARE
  link record;
  own click_shares;
  taken bigint;
  elsewhere bigint;
  lost bigint;
  redirectors bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM click_holders h WHERE h.holder = p_holder AND h.gone_at IS NULL) THEN
    RAISE EXCEPTION 'the holder % of shares of clicks has not reported', p_holder;
  END IF;
  -- One grant of a link at a time.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_link, 5310920));
  SELECT l.organization_id, l.app_id, l.max_clicks INTO link FROM links l
   WHERE l.id = p_link AND l.max_clicks IS NOT NULL AND l.deleted_at IS NULL;
  IF NOT FOUND THEN
    RETURN QUERY SELECT false, p_granted, p_returned, p_used, 0::bigint;
    RETURN;
  END IF;
  INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
    VALUES (link.organization_id, link.app_id, p_link, p_holder, p_granted, p_returned, p_used)
    ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
      returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used)
    RETURNING s.* INTO own;
  SELECT sum(s.granted - s.returned),
         coalesce(sum(s.granted - s.returned - s.used) FILTER (WHERE s.holder <> p_holder AND NOT s.is_given_up), 0)
    INTO taken, elsewhere FROM click_shares s WHERE s.link_id = p_link;
  IF own.granted > p_granted AND own.granted - own.returned > own.used THEN
    -- An answer was lost. The limit may have been lowered since.
    lost := least(own.granted - own.returned - own.used, greatest(taken - link.max_clicks, 0));
    UPDATE click_shares s SET returned = own.returned + lost WHERE s.link_id = p_link AND s.holder = p_holder AND lost > 0;
    RETURN QUERY SELECT true, own.granted, own.returned + lost, own.used, elsewhere;
    RETURN;
  END IF;
  IF taken >= link.max_clicks THEN
    UPDATE click_shares s SET is_wanted = true
     WHERE s.link_id = p_link AND s.holder <> p_holder AND s.granted - s.returned > s.used AND NOT s.is_wanted AND NOT s.is_given_up;
    RETURN QUERY SELECT false, own.granted, own.returned, own.used, elsewhere;
    RETURN;
  END IF;
  SELECT greatest(count(*), 1) INTO redirectors FROM click_holders h WHERE h.gone_at IS NULL;
  RETURN QUERY UPDATE click_shares s
    SET granted = s.granted + least(greatest((link.max_clicks - taken) / (2 * redirectors), 1, least(p_waiting, link.max_clicks - taken)), p_share_max)
    WHERE s.link_id = p_link AND s.holder = p_holder
    RETURNING true, s.granted, s.returned, s.used, elsewhere;
END $$;

REVOKE ALL ON FUNCTION signpost_report_clicks(text, text, text, boolean, text[], bigint[], bigint[], bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION signpost_grant_clicks(text, text, bigint, bigint, bigint, integer, integer) FROM PUBLIC;

-- As redirectors of an earlier version call them.
CREATE OR REPLACE FUNCTION signpost_enter_clicks(p_holder text, p_machine text, p_instance text, p_incarnation text, p_leaves boolean)
  RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT count(*) FROM signpost_report_clicks(p_holder, p_machine, p_instance, p_leaves, '{}', '{}', '{}', '{}');
  SELECT 'any'
$$;
CREATE OR REPLACE FUNCTION signpost_report_clicks(p_holder text, p_links text[], p_granted bigint[], p_returned bigint[], p_used bigint[])
  RETURNS TABLE (link_id text) LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT r.name FROM click_holders h,
    signpost_report_clicks(h.holder, h.machine, h.instance, false, p_links, p_granted, p_returned, p_used) r
   WHERE h.holder = p_holder AND r.kind = 'wanted'
$$;
CREATE OR REPLACE FUNCTION signpost_take_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint,
    p_share_max integer, p_settle_ms integer, p_waiting integer)
  RETURNS TABLE (outcome text, granted bigint, returned bigint, open_elsewhere bigint)
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT CASE WHEN is_granted THEN 'granted' ELSE 'none' END, granted, returned, open_elsewhere
    FROM signpost_grant_clicks(p_holder, p_link, p_granted, p_returned, p_used, p_share_max, p_waiting)
$$;
DROP FUNCTION signpost_take_clicks(text, text, bigint, bigint, bigint, integer, integer);
DROP FUNCTION signpost_click_incarnation();
DROP TABLE click_incarnation;
