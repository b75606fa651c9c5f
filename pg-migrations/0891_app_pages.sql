-- HTML of an app's own for visits that lead nowhere: not_found and expired (api/apps/fields.ts).
ALTER TABLE apps ADD COLUMN pages jsonb;
