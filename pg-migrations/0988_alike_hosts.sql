-- Hosts of other organizations that the host of an app may look like: one of ASCII letters, and those below the domain with
-- other letters, which the API compares. Two hosts that look alike are taken one after the other.
CREATE FUNCTION signpost_hosts_like(plain text, domain text, mine text) RETURNS SETOF text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('host ' || plain, 0));
  RETURN QUERY
    SELECT o.host FROM (
      SELECT a.host FROM apps a WHERE a.organization_id <> mine AND a.host_verified_at IS NOT NULL
      UNION ALL
      SELECT r.host FROM released_hosts r WHERE r.organization_id <> mine) AS o
     WHERE o.host = plain OR (o.host LIKE 'xn--%' AND right(o.host, length(domain) + 1) = '.' || domain);
END $$;
REVOKE ALL ON FUNCTION signpost_hosts_like(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_hosts_like(text, text, text) TO signpost_api;
