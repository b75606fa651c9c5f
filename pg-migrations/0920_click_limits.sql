-- Links with a maximum of people's clicks. Redirectors take shares of what is left and note each use in a file of their own, so the
-- figures here only grow: a redirector reports its own again after these tables were restored to an older state.
ALTER TABLE links ADD COLUMN max_clicks integer CHECK (max_clicks > 0);

-- What each holder, one file of a redirector, was granted, has returned, and has reported as used. No foreign keys: their locks on
-- links would make redirectors wait for the API and the other way round. A trigger removes the rows of deleted links.
CREATE TABLE click_shares (
  organization_id text NOT NULL,
  app_id text NOT NULL,
  link_id text NOT NULL,
  holder text NOT NULL,
  granted bigint NOT NULL,
  returned bigint NOT NULL,
  used bigint NOT NULL,
  -- Its machine was retired, or its file is lost: what was not returned counts as used.
  is_given_up boolean NOT NULL DEFAULT false,
  -- Another redirector had nothing left: its holder returns the rest with its next report.
  is_wanted boolean NOT NULL DEFAULT false,
  PRIMARY KEY (link_id, holder)
);
CREATE INDEX click_shares_holder ON click_shares (holder);
ALTER TABLE click_shares ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON click_shares TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
CREATE POLICY allowed_apps ON click_shares AS RESTRICTIVE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT ON click_shares TO signpost_api;

-- Redirectors that took shares. Until each of them has reported to this incarnation of the database, nothing is granted.
CREATE TABLE click_holders (
  holder text PRIMARY KEY,
  machine text NOT NULL,
  instance text NOT NULL,
  incarnation text NOT NULL,
  -- It was stopped in an orderly way and holds nothing.
  has_left boolean NOT NULL,
  reported_at timestamptz NOT NULL
);
CREATE INDEX click_holders_machine ON click_holders (machine, instance);

CREATE TABLE click_incarnation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  incarnation text NOT NULL,
  -- When the first redirector reported to it.
  since timestamptz NOT NULL
);

-- Another one after each start of the server, each fail-over and each restore, because any of these may have lost commits.
CREATE FUNCTION signpost_click_incarnation() RETURNS text LANGUAGE sql STABLE SET search_path = public AS $$
  SELECT extract(epoch FROM pg_postmaster_start_time()) || ' ' || 'public.click_holders'::regclass::oid::text
$$;
INSERT INTO click_incarnation (incarnation, since) VALUES (signpost_click_incarnation(), now() - interval '1 hour');

-- The holder has reported all of its shares to this incarnation. Any other one changes nothing. Returns the current one.
CREATE FUNCTION signpost_enter_clicks(p_holder text, p_machine text, p_instance text, p_incarnation text, p_leaves boolean)
  RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  latest text := signpost_click_incarnation();
BEGIN
  UPDATE click_incarnation SET incarnation = latest, since = clock_timestamp() WHERE incarnation <> latest;
  IF p_incarnation <> latest THEN
    RETURN latest;
  END IF;
  -- Its process has another file now, so the file before is lost.
  WITH lost AS (
    DELETE FROM click_holders WHERE machine = p_machine AND instance = p_instance AND holder <> p_holder RETURNING holder
  )
  UPDATE click_shares SET is_given_up = true, is_wanted = false WHERE holder IN (SELECT holder FROM lost) AND NOT is_given_up;
  DELETE FROM click_holders WHERE has_left AND reported_at < now() - interval '90 days';
  INSERT INTO click_holders AS h (holder, machine, instance, incarnation, has_left, reported_at)
    VALUES (p_holder, p_machine, p_instance, latest, p_leaves, now())
    ON CONFLICT (holder) DO UPDATE SET machine = EXCLUDED.machine, instance = EXCLUDED.instance, incarnation = EXCLUDED.incarnation,
      has_left = EXCLUDED.has_left, reported_at = EXCLUDED.reported_at;
  RETURN latest;
END $$;

-- Returns the links of which others want what this holder has left.
CREATE FUNCTION signpost_report_clicks(p_holder text, p_links text[], p_granted bigint[], p_returned bigint[], p_used bigint[])
  RETURNS TABLE (link_id text) LANGUAGE sql SECURITY DEFINER SET search_path = public AS $$
  INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
    SELECT l.organization_id, l.app_id, l.id, p_holder, g.granted, g.returned, g.used
      FROM unnest(p_links, p_granted, p_returned, p_used) AS g (link, granted, returned, used)
      JOIN links l ON l.id = g.link AND l.deleted_at IS NULL
    ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
      returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used),
      is_given_up = s.is_given_up AND NOT EXISTS (SELECT FROM click_holders h WHERE h.holder = p_holder);
  UPDATE click_shares SET is_wanted = false WHERE holder = p_holder AND is_wanted RETURNING link_id
$$;

-- What a holder has left according to Postgres. It may not know of a grant whose answer was lost.
CREATE FUNCTION signpost_open_clicks(p_holder text) RETURNS TABLE (link_id text, granted bigint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
  SELECT link_id, granted FROM click_shares WHERE holder = p_holder AND granted - returned > used LIMIT 50000
$$;

-- Grants a share. The answer contains all that the holder was ever granted, so an answer that was lost is repeated.
--   granted   to the holder, in all
--   none      nothing is left; open_elsewhere: clicks that other redirectors hold and may return
--   report    the holder has not reported to this incarnation
--   waiting   another holder has not
CREATE FUNCTION signpost_take_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint,
    p_share_max integer, p_settle_ms integer)
  RETURNS TABLE (outcome text, granted bigint, returned bigint, open_elsewhere bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
#variable_conflict use_column
DECLARE
  latest text := signpost_click_incarnation();
  link record;
  own click_shares;
  taken bigint;
  elsewhere bigint;
  lost bigint;
  redirectors bigint;
BEGIN
  IF NOT EXISTS (SELECT FROM click_holders h WHERE h.holder = p_holder AND h.incarnation = latest AND NOT h.has_left) THEN
    RETURN QUERY SELECT 'report', p_granted, p_returned, 0::bigint;
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM click_holders h WHERE h.incarnation <> latest AND NOT h.has_left)
    -- Redirectors that are not known here report within this time, as after a restore from before their first share.
    OR EXISTS (SELECT FROM click_incarnation i
                WHERE i.incarnation <> latest OR i.since > clock_timestamp() - make_interval(secs => p_settle_ms / 1000.0)) THEN
    RETURN QUERY SELECT 'waiting', p_granted, p_returned, 0::bigint;
    RETURN;
  END IF;
  -- One grant of a link at a time.
  PERFORM pg_advisory_xact_lock(hashtextextended(p_link, 5310920));
  SELECT l.organization_id, l.app_id, l.max_clicks INTO link FROM links l
   WHERE l.id = p_link AND l.max_clicks IS NOT NULL AND l.deleted_at IS NULL;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'none', p_granted, p_returned, 0::bigint;
    RETURN;
  END IF;
  INSERT INTO click_shares AS s (organization_id, app_id, link_id, holder, granted, returned, used)
    VALUES (link.organization_id, link.app_id, p_link, p_holder, p_granted, p_returned, p_used)
    ON CONFLICT (link_id, holder) DO UPDATE SET granted = greatest(s.granted, EXCLUDED.granted),
      returned = greatest(s.returned, EXCLUDED.returned), used = greatest(s.used, EXCLUDED.used), is_given_up = false
    RETURNING s.* INTO own;
  SELECT sum(s.granted - s.returned),
         coalesce(sum(s.granted - s.returned - s.used) FILTER (WHERE s.holder <> p_holder AND NOT s.is_given_up), 0)
    INTO taken, elsewhere FROM click_shares s WHERE s.link_id = p_link;
  IF own.granted > p_granted THEN
    -- An answer was lost. The limit may have been lowered since.
    lost := least(own.granted - p_granted, greatest(taken - link.max_clicks, 0));
    UPDATE click_shares s SET returned = own.returned + lost WHERE s.link_id = p_link AND s.holder = p_holder AND lost > 0;
    RETURN QUERY SELECT 'granted', own.granted, own.returned + lost, elsewhere;
    RETURN;
  END IF;
  IF taken >= link.max_clicks THEN
    UPDATE click_shares s SET is_wanted = true
     WHERE s.link_id = p_link AND s.holder <> p_holder AND s.granted - s.returned > s.used AND NOT s.is_wanted AND NOT s.is_given_up;
    RETURN QUERY SELECT 'none', own.granted, own.returned, elsewhere;
    RETURN;
  END IF;
  SELECT greatest(count(*), 1) INTO redirectors FROM click_holders h WHERE NOT h.has_left;
  RETURN QUERY UPDATE click_shares s
    SET granted = s.granted + least(greatest((link.max_clicks - taken) / (2 * redirectors), 1), p_share_max)
    WHERE s.link_id = p_link AND s.holder = p_holder
    RETURNING 'granted', s.granted, s.returned, elsewhere;
END $$;

CREATE FUNCTION signpost_drop_click_shares() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  DELETE FROM click_shares WHERE link_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER links_click_shares_dropped AFTER UPDATE OF deleted_at ON links FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)
  EXECUTE FUNCTION signpost_drop_click_shares();
CREATE TRIGGER links_click_shares_removed AFTER DELETE ON links FOR EACH ROW EXECUTE FUNCTION signpost_drop_click_shares();

REVOKE ALL ON FUNCTION signpost_enter_clicks(text, text, text, text, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION signpost_report_clicks(text, text[], bigint[], bigint[], bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION signpost_open_clicks(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION signpost_take_clicks(text, text, bigint, bigint, bigint, integer, integer) FROM PUBLIC;
