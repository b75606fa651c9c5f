-- What the API calls a row: numbers that all organizations share tell each how much the others change. The rows keep their
-- order by number.
ALTER TABLE audit_log ADD COLUMN public_id uuid NOT NULL DEFAULT gen_random_uuid();
