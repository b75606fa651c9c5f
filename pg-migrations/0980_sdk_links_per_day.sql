-- An app's public key creates at most 10,000 links per day. Whoever has the key could otherwise fill the disk that all share.
CREATE TABLE sdk_links_made (
  app_id text PRIMARY KEY REFERENCES apps ON DELETE CASCADE,
  day date NOT NULL,
  made integer NOT NULL CHECK (made > 0)
);
-- Only the trigger reads and writes it.
ALTER TABLE sdk_links_made ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION signpost_count_sdk_link() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
  INSERT INTO sdk_links_made AS m (app_id, day, made) VALUES (NEW.app_id, today, 1)
    ON CONFLICT (app_id) DO UPDATE SET day = today, made = CASE WHEN m.day = today THEN m.made + 1 ELSE 1 END
    WHERE m.day <> today OR m.made < 10000;
  IF NOT FOUND THEN
    RAISE check_violation USING CONSTRAINT = 'sdk_links_per_day', MESSAGE = 'the app has its 10000 links of today';
  END IF;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION signpost_count_sdk_link() FROM PUBLIC;
CREATE TRIGGER count_sdk_link AFTER INSERT ON links FOR EACH ROW WHEN (NEW.source = 'sdk') EXECUTE FUNCTION signpost_count_sdk_link();
