-- People who were erased while records of theirs may still be on the way: in the journal of an edge that was cut off, in the log, or
-- in a replay. Ingest blanks what it then stores of them. The ids stand here as salted hashes only.
CREATE TABLE ingest.erasure (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id text NOT NULL,
  -- Records that were received until then (epoch ms); what comes later is of somebody new.
  until_ms bigint NOT NULL,
  salt text NOT NULL,
  -- SHA-256 of salt and id in base64url; null for everything of the organization.
  hashes text[],
  expires_at timestamptz NOT NULL
);
