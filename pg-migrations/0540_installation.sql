-- Which installation this is: ingest makes the id once and stamps the log with it, so that no other one's log is taken for its own.
CREATE TABLE ingest.installation (
  -- One row.
  is_this boolean PRIMARY KEY DEFAULT true CHECK (is_this),
  id text NOT NULL
);
