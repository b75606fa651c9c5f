-- Erasures that have begun and are not finished: what the next run needs after a kill, because a killed one has already removed what
-- leads to the rest of the person. Ingest counts the days again while a row exists. The row is removed after the last step.
CREATE TABLE ingest.unfinished_erasure (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id text NOT NULL,
  -- Empty for all apps.
  app_id text NOT NULL,
  -- The ids of the person by kind; null for all people.
  ids jsonb,
  -- UTC days (since 1970) whose cells the erasure changes.
  days integer[] NOT NULL DEFAULT '{}',
  -- Only the files of Postgres may still contain something.
  is_erased boolean NOT NULL DEFAULT false,
  begun_at timestamptz NOT NULL DEFAULT now()
);
-- Statistics would contain the ids.
ALTER TABLE ingest.unfinished_erasure ALTER COLUMN ids SET STATISTICS 0;
