-- Logins of the dashboard: one row per browser. The cookie's secret is stored as a hash. A login ends at expires_at,
-- which use moves forward, or 30 days after it began; each login deletes expired rows, so the table does not grow.
CREATE TABLE browser_sessions (
  id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  token_hash bytea NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX browser_sessions_token_hash_key ON browser_sessions (token_hash);
CREATE INDEX browser_sessions_user ON browser_sessions (user_id, created_at);
CREATE INDEX browser_sessions_expiry ON browser_sessions (expires_at);
