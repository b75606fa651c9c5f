-- Rows are deleted for their age by this server's clock, but that may jump years ahead. So what is deleted follows this time, which ingest
-- moves towards now(), at most two seconds for each second that it measured: a jump deletes at most two days' worth per day.
CREATE TABLE ingest.deletion_clock (
  is_one boolean PRIMARY KEY DEFAULT true CHECK (is_one),
  reached timestamptz NOT NULL
);
INSERT INTO ingest.deletion_clock (reached) VALUES (now());
CREATE FUNCTION signpost_deletion_time() RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
  $$ SELECT least(now(), reached) FROM ingest.deletion_clock $$;
REVOKE ALL ON FUNCTION signpost_deletion_time() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_deletion_time() TO signpost_api;

-- These tables have the time of the process that wrote the row, which may be years behind. A row is deleted when it is old by both clocks.
ALTER TABLE install_answers ADD COLUMN stored_at timestamptz;
ALTER TABLE install_answers ALTER COLUMN stored_at SET DEFAULT now();
ALTER TABLE audit_log ADD COLUMN stored_at timestamptz;
ALTER TABLE audit_log ALTER COLUMN stored_at SET DEFAULT now();
ALTER TABLE imports ADD COLUMN stored_at timestamptz;
ALTER TABLE imports ALTER COLUMN stored_at SET DEFAULT now();

-- Whether a lease or a heartbeat of ingest is valid. One that ends later than twice the maximum of LEASE_SECONDS from now was written by a
-- Postgres whose clock was ahead; its process is dead, or corrects it at its next heartbeat.
CREATE FUNCTION signpost_is_live(until timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT until BETWEEN now() AND now() + interval '10 minutes' $$;

-- These functions are the ones of 0770, 0870, 0892 and 0930 but for the time by which they delete.
DO $$
DECLARE
  changed record;
  before text;
BEGIN
  FOR changed IN SELECT * FROM (VALUES
    ('signpost_trim_audit_log', 'WHERE at < now() - interval', 'WHERE greatest(at, stored_at) < signpost_deletion_time() - interval'),
    ('signpost_begin_password_reset', 'expires_at <= at ORDER', 'expires_at <= least(at, signpost_deletion_time()) ORDER'),
    ('signpost_count_orphans', 'WHERE day < today - 30', 'WHERE day < (signpost_deletion_time() AT TIME ZONE ''UTC'')::date - 30'),
    ('signpost_store_ad_postback', 'p.received_at < now() - interval', 'p.received_at < signpost_deletion_time() - interval')
  ) AS c (name, old, new) LOOP
    before := pg_get_functiondef(changed.name::regproc);
    IF strpos(before, changed.old) = 0 THEN
      RAISE EXCEPTION '% has changed', changed.name;
    END IF;
    EXECUTE replace(before, changed.old, changed.new);
  END LOOP;
END $$;
