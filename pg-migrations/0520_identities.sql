-- A person's identity at a provider: its permanent number for them. An e-mail address can change, and be assigned to
-- others.
CREATE TABLE user_identities (
  provider text NOT NULL,
  subject text NOT NULL CHECK (char_length(subject) BETWEEN 1 AND 255),
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  -- The preferred verified address at the last login.
  email text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_login_at timestamptz NOT NULL,
  PRIMARY KEY (provider, subject)
);
-- One person at a provider is one person: a second subject of it can't join the same account.
CREATE UNIQUE INDEX user_identities_user_key ON user_identities (user_id, provider);

-- What a client must present to complete a login that it started: a hash of a cookie's value or of a verifier. Null for
-- a program that sent none.
ALTER TABLE oauth_states ADD COLUMN binding_hash bytea;
