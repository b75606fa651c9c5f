-- A dry run also finds rows that repeat the external_id of an earlier row.
ALTER TABLE import_codes ADD COLUMN is_external_id boolean NOT NULL DEFAULT false,
  DROP CONSTRAINT import_codes_pkey, ADD PRIMARY KEY (import_id, code, is_external_id);
INSERT INTO import_codes (import_id, organization_id, app_id, code, is_external_id, number)
  SELECT r.import_id, r.organization_id, r.app_id, r.link -> 'fields' ->> 'external_id', true, r.number
    FROM imports i JOIN import_rows r ON r.import_id = i.id
   WHERE i.state = 'checking' AND r.outcome = 'new' AND r.link -> 'fields' ->> 'external_id' IS NOT NULL
   ORDER BY r.number ON CONFLICT DO NOTHING;
