-- The id of this installation: ingest generates it once and stamps the log with it, so that no other installation's log
-- is mistaken for its own.
CREATE TABLE ingest.installation (
  -- One row.
  is_this boolean PRIMARY KEY DEFAULT true CHECK (is_this),
  id text NOT NULL
);
