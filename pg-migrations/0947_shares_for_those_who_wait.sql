-- The last clicks of a link were granted one by one, so visitors waited while four redirectors asked some thirty times. A redirector
-- now says how many of its visitors wait, and gets at least as many.
-- Grants a share. The answer contains all that the holder was ever granted, so an answer that was lost is repeated.
--   granted   to the holder, in all
--   none      nothing is left; open_elsewhere: clicks that other redirectors hold and may return
--   report    the holder has not reported to this incarnation
--   waiting   another holder has not
-- p_waiting visitors of this holder wait for it: what they get is used at once, so it may be all that is left.
CREATE FUNCTION signpost_take_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint,
    p_share_max integer, p_settle_ms integer, p_waiting integer)
  RETURNS TABLE (outcome text, granted bigint, returned bigint, open_elsewhere bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
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
    SET granted = s.granted + least(greatest((link.max_clicks - taken) / (2 * redirectors), 1, least(p_waiting, link.max_clicks - taken)), p_share_max)
    WHERE s.link_id = p_link AND s.holder = p_holder
    RETURNING 'granted', s.granted, s.returned, elsewhere;
END $$;

REVOKE ALL ON FUNCTION signpost_take_clicks(text, text, bigint, bigint, bigint, integer, integer, integer) FROM PUBLIC;

-- As redirectors of an earlier version call it.
CREATE OR REPLACE FUNCTION signpost_take_clicks(p_holder text, p_link text, p_granted bigint, p_returned bigint, p_used bigint,
    p_share_max integer, p_settle_ms integer)
  RETURNS TABLE (outcome text, granted bigint, returned bigint, open_elsewhere bigint)
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT outcome, granted, returned, open_elsewhere
    FROM signpost_take_clicks(p_holder, p_link, p_granted, p_returned, p_used, p_share_max, p_settle_ms, 0)
$$;
