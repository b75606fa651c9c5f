-- A device keeps its first answer, and claims further clicks when it returns by one. Such a claim is a re-engagement,
-- or an install that is being repeated.
ALTER TABLE claims ADD COLUMN is_first boolean NOT NULL DEFAULT true;
-- The device had the app before the click was made, and the journal is not yet known to have the opening.
ALTER TABLE claims ADD COLUMN is_open_due boolean NOT NULL DEFAULT false;
DROP INDEX claims_device_key;
-- One device, one first answer.
CREATE UNIQUE INDEX claims_device_key ON claims (app_id, device) WHERE device <> '' AND is_first;

ALTER TABLE install_answers ADD COLUMN is_reinstall boolean NOT NULL DEFAULT false;

-- Stores an install under its first name, or returns the one that is already stored under that name. If its second
-- name, the device, is another install's, this is a reinstall, and the device now refers to the new one. If another
-- install has the click, it fails with the constraint install_answers_click_id_key, and nothing is stored.
DROP FUNCTION signpost_keep_install(text, text, text, text, text, jsonb, text, timestamptz);
CREATE FUNCTION signpost_keep_install(
  of_app text, first_name text, second_name text, new_install_id text, of_click text, new_answer jsonb, new_record text,
  at_time timestamptz
) RETURNS TABLE (is_new boolean, install_id text, answer jsonb, record text, is_reinstall boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  again boolean;
BEGIN
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, first_name, new_install_id) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN QUERY SELECT false, a.install_id, a.answer, a.record, a.is_reinstall
      FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
     WHERE n.app_id = of_app AND n.name = first_name;
    RETURN;
  END IF;
  INSERT INTO install_names (app_id, name, install_id) VALUES (of_app, second_name, new_install_id) ON CONFLICT DO NOTHING;
  -- An install that names no device has one name.
  again := NOT FOUND AND second_name <> first_name;
  IF again THEN
    UPDATE install_names SET install_id = new_install_id WHERE app_id = of_app AND name = second_name;
  END IF;
  INSERT INTO install_answers (app_id, install_id, click_id, answer, record, created_at, is_reinstall)
    VALUES (of_app, new_install_id, of_click, new_answer, new_record, at_time, again);
  RETURN QUERY SELECT true, new_install_id, new_answer, new_record, again;
END $$;
