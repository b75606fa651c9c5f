-- The second factor of a user: a secret from which an authenticator makes a code every 30 seconds (RFC 6238).
CREATE TABLE user_totp (
  user_id text PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  -- "key id.base64url", like API keys.
  secret_ciphertext text NOT NULL,
  -- Null until a first code has shown that the authenticator has the secret: before that, no code is required.
  confirmed_at timestamptz,
  -- The 30 seconds of the last accepted code: none is accepted twice.
  last_step bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL
);

-- For users who have lost the authenticator: each is valid once, and deleted by its use.
CREATE TABLE recovery_codes (
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  code_hash bytea NOT NULL,
  PRIMARY KEY (user_id, code_hash)
);

-- Members without a second factor have no access to such an organization.
ALTER TABLE organizations ADD COLUMN requires_totp boolean NOT NULL DEFAULT false;
