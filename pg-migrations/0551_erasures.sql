-- People who were erased while records of theirs may still be in flight: in the journal of an edge that was
-- disconnected, in the log, or in a replay. Ingest blanks what it then stores of them. The ids are stored only as
-- salted hashes.
CREATE TABLE ingest.erasure (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id text NOT NULL,
  -- Records that were received until then (epoch ms); later ones belong to a new person.
  until_ms bigint NOT NULL,
  salt text NOT NULL,
  -- SHA-256 of salt and id in base64url; null for everything of the organization.
  hashes text[],
  expires_at timestamptz NOT NULL
);
