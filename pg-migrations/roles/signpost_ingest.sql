-- Ingest writes its own tables, reads whom it has to blank and the settings of apps, and deletes claims that have
-- expired.
GRANT USAGE ON SCHEMA public, ingest TO signpost_ingest;
GRANT EXECUTE ON FUNCTION signpost_deletion_time() TO signpost_ingest;
GRANT SELECT ON ready_migrations TO signpost_ingest;
GRANT SELECT, INSERT, UPDATE, DELETE ON ingest.batch, ingest.ledger, ingest.member, ingest.name, ingest.visitor_salt TO signpost_ingest;
-- What says how far it has come is never deleted: without it, records would be stored again.
GRANT SELECT, INSERT, UPDATE ON ingest.checkpoint, ingest.deletion_clock, ingest.last_batch, ingest.late_cursor, ingest.lease, ingest.mark,
  ingest.progress, ingest.stray TO signpost_ingest;
GRANT SELECT, INSERT ON ingest.installation, ingest.lost_frames TO signpost_ingest;
GRANT SELECT, UPDATE ON ingest.revision TO signpost_ingest;
GRANT SELECT ON ingest.erasure TO signpost_ingest;
-- Not the ids of people.
GRANT SELECT (id, organization_id, days, is_erased, begun_at) ON ingest.unfinished_erasure TO signpost_ingest;
GRANT SELECT, DELETE ON claims TO signpost_ingest;
-- Rows are locked before they are deleted, which requires the privilege to update one column.
GRANT UPDATE (expires_at) ON claims TO signpost_ingest;
GRANT SELECT (id, ios, android, settings) ON apps TO signpost_ingest;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_policies WHERE schemaname = 'public' AND tablename = 'apps' AND policyname = 'ingest') THEN
    CREATE POLICY ingest ON apps FOR SELECT TO signpost_ingest USING (true);
  END IF;
END $$;
