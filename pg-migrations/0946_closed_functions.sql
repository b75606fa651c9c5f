-- A function that runs as its owner looked up names in the temporary schema of its caller first, as Postgres does unless search_path
-- names pg_temp. A process that was broken into could put a table or a view of its own there, and run its code as the owner.
-- Nobody but the roles that were granted them calls these functions; a trigger needs no grant.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'public' AND p.prosecdef LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = public, pg_temp', f);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$;
