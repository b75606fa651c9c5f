-- A login through a provider that waits for a code of the second factor: its identity, and a hash of the provider's
-- code, which is valid only once there and has been used. Such a row is found again with the same state, until it
-- expires.
ALTER TABLE oauth_states
  ADD COLUMN user_id text REFERENCES users ON DELETE CASCADE,
  ADD COLUMN code_hash bytea;
