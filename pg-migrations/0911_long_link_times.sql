-- Lists go from page to page by the millisecond in which a link was made. Those that first visits of long links made had microseconds
-- too, so the page after one of them left some out. The function is the one of 0910 but for these times.
UPDATE links SET created_at = date_trunc('milliseconds', created_at), updated_at = date_trunc('milliseconds', updated_at)
 WHERE source = 'visit' AND created_at <> date_trunc('milliseconds', created_at);

CREATE OR REPLACE FUNCTION signpost_make_long_link(for_app text, new_id text, new_code text, fields jsonb)
  RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  today date := (now() AT TIME ZONE 'UTC')::date;
  app apps%ROWTYPE;
  known record;
BEGIN
  IF new_code !~ '^fdl~[0-9a-f]{32}$' OR new_id !~ '^lnk_[0-9a-z]{26}$' OR octet_length(fields::text) > 65536 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'this is no long link';
  END IF;
  SELECT * INTO app FROM apps a WHERE a.id = for_app AND a.deleted_at IS NULL AND a.host_verified_at IS NOT NULL;
  -- The caller has checked the hosts, by the app's settings as it knows them. This is what holds.
  IF app.id IS NULL OR jsonb_typeof(app.settings #> '{firebase_links,hosts}') IS DISTINCT FROM 'array' OR EXISTS (
    SELECT FROM unnest(ARRAY[fields ->> 'ios_url', fields ->> 'android_url', fields ->> 'fallback_url']) AS u (url)
     WHERE u.url IS NOT NULL AND NOT coalesce(
       (app.settings #> '{firebase_links,hosts}') ? substring(u.url FROM '^https://([a-z0-9._-]+)(?::[0-9]{1,5})?(?:[/?#]|$)'), false)
  ) THEN
    RETURN 'off';
  END IF;
  SELECT l.deleted_at INTO known FROM links l WHERE l.app_id = for_app AND l.short_code = new_code;
  IF FOUND THEN
    RETURN CASE WHEN known.deleted_at IS NULL THEN 'known' ELSE 'deleted' END;
  END IF;
  -- The row also makes links of one app wait for each other.
  INSERT INTO long_links_made AS m (app_id, day, made) VALUES (for_app, today, 1)
    ON CONFLICT (app_id) DO UPDATE SET day = today, made = CASE WHEN m.day = today THEN m.made + 1 ELSE 1 END
    WHERE m.day <> today OR m.made < 5000;
  IF NOT FOUND THEN
    RETURN 'limit';
  END IF;
  INSERT INTO links (id, organization_id, app_id, short_code, source, created_at, updated_at, path, data, tap_page,
                     ios_url, android_url, fallback_url, og_title, og_description, og_image_url,
                     utm_source, utm_medium, utm_campaign, utm_term, utm_content)
    SELECT new_id, app.organization_id, for_app, new_code, 'visit', date_trunc('milliseconds', now()), date_trunc('milliseconds', now()), f.path, f.data, f.tap_page,
           f.ios_url, f.android_url, f.fallback_url, f.og_title, f.og_description, f.og_image_url,
           f.utm_source, f.utm_medium, f.utm_campaign, f.utm_term, f.utm_content
      FROM jsonb_to_record(fields) AS f (path text, data jsonb, tap_page text, ios_url text, android_url text, fallback_url text,
           og_title text, og_description text, og_image_url text,
           utm_source text, utm_medium text, utm_campaign text, utm_term text, utm_content text)
    ON CONFLICT DO NOTHING;
  RETURN CASE WHEN FOUND THEN 'made' ELSE 'known' END;
END $$;
