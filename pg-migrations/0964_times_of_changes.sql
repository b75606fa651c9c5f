-- A message about a link or an import happens when the change does, by this server's clock. An imported link has the creation date of
-- the service that it came from, and a link that the undo of an import deletes keeps its updated_at.
DO $$
DECLARE
  changed record;
  before text;
BEGIN
  FOR changed IN SELECT * FROM (VALUES
    ('signpost_owe_created_links', '''link.created'', l.created_at', '''link.created'', now()'),
    ('signpost_owe_changed_links', 't.type, n.updated_at', 't.type, now()'),
    ('signpost_owe_finished_import', '''import.finished'', NEW.updated_at', '''import.finished'', now()')
  ) AS c (name, old, new) LOOP
    before := pg_get_functiondef(changed.name::regproc);
    IF strpos(before, changed.old) = 0 THEN
      RAISE EXCEPTION '% has changed', changed.name;
    END IF;
    EXECUTE replace(before, changed.old, changed.new);
  END LOOP;
END $$;
