-- Requests with an Idempotency-Key and their answers, for 24 hours. Every request with a key deletes some expired rows.
CREATE TABLE idempotency_keys (
  -- The user or the server key that sent the request.
  caller text NOT NULL,
  key text NOT NULL,
  -- SHA-256 of the endpoint, its parameters and the body.
  fingerprint bytea NOT NULL,
  -- Until then the request is being processed, unless it has an answer.
  locked_until timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  -- Encrypted: some answers contain keys. Null until the request was processed.
  answer text,
  PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);
