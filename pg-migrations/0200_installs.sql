-- Installs and their answers, so that one that is sent again, immediately or years later, is recognized.

CREATE TABLE install_answers (
  app_id text NOT NULL REFERENCES apps,
  install_id text NOT NULL,
  -- One click, one install.
  click_id text,
  answer jsonb NOT NULL,
  -- The record for the log, until the journal has it.
  record text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (app_id, install_id)
);
CREATE UNIQUE INDEX install_answers_click_id_key ON install_answers (click_id) WHERE click_id IS NOT NULL;

-- The names of an install: `i:` and its id, `d:` and the device it was first seen on.
CREATE TABLE install_names (
  app_id text NOT NULL REFERENCES apps,
  name text NOT NULL,
  install_id text NOT NULL,
  PRIMARY KEY (app_id, name)
);

-- Stores an install under its first name, or returns the one that is already stored under that name. If another install
-- has the click, it fails with the constraint install_answers_click_id_key, and nothing is stored.
CREATE FUNCTION signpost_keep_install(
  of_app text, first_name text, second_name text, new_install_id text, of_click text, new_answer jsonb, new_record text,
  at_time timestamptz
) RETURNS TABLE (is_new boolean, install_id text, answer jsonb, record text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, first_name, new_install_id) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN QUERY SELECT false, a.install_id, a.answer, a.record
      FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
     WHERE n.app_id = of_app AND n.name = first_name;
    RETURN;
  END IF;
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, second_name, new_install_id) ON CONFLICT DO NOTHING;
  INSERT INTO install_answers (app_id, install_id, click_id, answer, record, created_at)
    VALUES (of_app, new_install_id, of_click, new_answer, new_record, at_time);
  RETURN QUERY SELECT true, new_install_id, new_answer, new_record;
END $$;
