-- The second factor of a user: a secret from which an authenticator makes a code every 30 seconds (RFC 6238).
CREATE TABLE user_totp (
  user_id text PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  -- "key id.base64url", like API keys.
  secret_ciphertext text NOT NULL,
  -- Null until a first code has shown that the authenticator has the secret: nobody is asked for codes before that.
  confirmed_at timestamptz,
  -- The 30 seconds of the last code that was taken: none is taken twice.
  last_step bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL
);

-- For who has lost the authenticator: good once each, deleted by their use.
CREATE TABLE recovery_codes (
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  code_hash bytea NOT NULL,
  PRIMARY KEY (user_id, code_hash)
);

-- Members without a second factor have no access to such an organization.
ALTER TABLE organizations ADD COLUMN requires_totp boolean NOT NULL DEFAULT false;
