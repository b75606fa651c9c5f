-- A login through a provider that waits for a code of the second factor: whose it is, and a hash of the provider's code, which is good
-- once there and has been used. Such a row is asked for again with the same state, until it expires.
ALTER TABLE oauth_states
  ADD COLUMN user_id text REFERENCES users ON DELETE CASCADE,
  ADD COLUMN code_hash bytea;
