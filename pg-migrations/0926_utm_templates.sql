-- Named UTM parameters, which fill those of a new link. A link keeps no reference to the template that filled it. An
-- organization has at most 100; its members delete them, and they end with their app.
CREATE TABLE utm_templates (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations,
  -- Null: for every app of the organization.
  app_id text REFERENCES apps ON DELETE CASCADE,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
  utm_source text CHECK (char_length(utm_source) BETWEEN 1 AND 255),
  utm_medium text CHECK (char_length(utm_medium) BETWEEN 1 AND 255),
  utm_campaign text CHECK (char_length(utm_campaign) BETWEEN 1 AND 255),
  utm_term text CHECK (char_length(utm_term) BETWEEN 1 AND 255),
  utm_content text CHECK (char_length(utm_content) BETWEEN 1 AND 255),
  created_by text REFERENCES users ON DELETE SET NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (num_nonnulls(utm_source, utm_medium, utm_campaign, utm_term, utm_content) > 0)
);
-- One name in each app, and one among those of the whole organization.
CREATE UNIQUE INDEX utm_templates_name_key ON utm_templates (organization_id, coalesce(app_id, ''), name);
CREATE INDEX utm_templates_app ON utm_templates (app_id) WHERE app_id IS NOT NULL;
CREATE INDEX utm_templates_creator ON utm_templates (created_by) WHERE created_by IS NOT NULL;

ALTER TABLE utm_templates ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON utm_templates TO signpost_api USING (organization_id = ANY ((SELECT signpost_organizations())::text[]));
-- A server key for some apps uses the templates of the organization, and changes those of its apps only.
CREATE POLICY allowed_apps ON utm_templates AS RESTRICTIVE FOR SELECT TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps_insert ON utm_templates AS RESTRICTIVE FOR INSERT TO signpost_api
  WITH CHECK ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps_update ON utm_templates AS RESTRICTIVE FOR UPDATE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
CREATE POLICY allowed_apps_delete ON utm_templates AS RESTRICTIVE FOR DELETE TO signpost_api
  USING ((SELECT signpost_apps()) IS NULL OR app_id = ANY ((SELECT signpost_apps())::text[]));
GRANT SELECT, INSERT, UPDATE, DELETE ON utm_templates TO signpost_api;

-- Whether the organization has fewer than that, those of apps included that the caller may not use. Others wait until this
-- transaction has added its own.
CREATE FUNCTION signpost_has_room_for_utm_template(organization text, maximum integer)
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(organization, 5310926));
  RETURN (SELECT count(*) < maximum FROM utm_templates t WHERE t.organization_id = organization);
END $$;
REVOKE ALL ON FUNCTION signpost_has_room_for_utm_template(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION signpost_has_room_for_utm_template(text, integer) TO signpost_api;

CREATE FUNCTION signpost_delete_utm_templates() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  DELETE FROM utm_templates WHERE app_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER apps_deleted_utm_templates AFTER UPDATE OF deleted_at ON apps FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION signpost_delete_utm_templates();
