-- Mail that is owed to people. A row is added in the transaction of what the mail is about; the API's process sends it, and
-- notes how that went. Rows are deleted after some days: until then they limit the mail that one person gets.
CREATE TABLE mails (
  id text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('invitation', 'password_reset')),
  recipient text NOT NULL,
  -- Who caused it: an organization, or empty.
  sender_id text NOT NULL,
  -- The invitation or the reset. When that is gone, its mail is not sent.
  subject_id text NOT NULL,
  -- What the mail says, with its link, encrypted under SECRET_KEY. Nothing is left of it once the mail is sent or given up.
  content_ciphertext text,
  state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'failed')),
  -- Counted when an attempt begins, so that a process that dies during each attempt ends too.
  attempts integer NOT NULL DEFAULT 0,
  -- Of the next attempt; while one is under way, when another process may begin one.
  due_at timestamptz NOT NULL DEFAULT now(),
  -- When what its link opens ends.
  expires_at timestamptz NOT NULL,
  -- Why the last attempt failed, as one word: what a mail server says may contain addresses.
  failure text,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((state = 'waiting') = (content_ciphertext IS NOT NULL))
);
CREATE INDEX mails_due ON mails (due_at) WHERE state = 'waiting';
CREATE INDEX mails_recipient ON mails (recipient, created_at);
CREATE INDEX mails_sender ON mails (sender_id, created_at);
CREATE INDEX mails_subject ON mails (subject_id);
CREATE INDEX mails_age ON mails (created_at);

-- Links that set a new password: each works once, for an hour. Only functions read and write them.
CREATE TABLE password_resets (
  id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
  token_hash bytea NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX password_resets_token_hash_key ON password_resets (token_hash);
CREATE INDEX password_resets_user ON password_resets (user_id);
CREATE INDEX password_resets_expiry ON password_resets (expires_at);

CREATE FUNCTION signpost_forget_mail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE mails SET state = 'failed', failure = 'withdrawn', content_ciphertext = NULL
   WHERE subject_id = OLD.id AND state = 'waiting';
  RETURN NULL;
END $$;
CREATE TRIGGER forget_mail AFTER DELETE ON invitations FOR EACH ROW EXECUTE FUNCTION signpost_forget_mail();
CREATE TRIGGER forget_mail AFTER DELETE ON password_resets FOR EACH ROW EXECUTE FUNCTION signpost_forget_mail();

-- Stores the hash of a link for the account of this address, and deletes some expired ones. False if there is no account that
-- can log in.
CREATE FUNCTION signpost_begin_password_reset(reset text, address text, hash bytea, at timestamptz, ends timestamptz) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  DELETE FROM password_resets WHERE id IN (
    SELECT id FROM password_resets WHERE expires_at <= at ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED);
  INSERT INTO password_resets (id, user_id, token_hash, created_at, expires_at)
    SELECT reset, id, hash, at, ends FROM users WHERE email = address AND deleted_at IS NULL AND disabled_at IS NULL;
  RETURN FOUND;
END $$;

-- What a token stands for: nothing once it has expired, or its account can't log in any more.
CREATE FUNCTION signpost_password_reset_of(hash bytea, at timestamptz) RETURNS TABLE (user_id text, email text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
  SELECT u.id, u.email FROM password_resets r JOIN users u ON u.id = r.user_id
   WHERE r.token_hash = hash AND r.expires_at > at AND u.deleted_at IS NULL AND u.disabled_at IS NULL $$;

-- Sets the password, which ends every other link of the account. Null if the token stands for nothing; of several calls with one
-- token, one gets the account.
CREATE FUNCTION signpost_reset_password(hash bytea, at timestamptz, new_hash text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  account text;
BEGIN
  SELECT user_id INTO account FROM signpost_password_reset_of(hash, at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM users WHERE id = account AND deleted_at IS NULL AND disabled_at IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  DELETE FROM password_resets WHERE token_hash = hash AND expires_at > at;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE users SET password_hash = new_hash WHERE id = account;
  RETURN account;
END $$;

-- A changed password, or another address, also ends the links.
CREATE FUNCTION signpost_end_password_resets() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  DELETE FROM password_resets WHERE user_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER end_password_resets AFTER UPDATE OF password_hash, email ON users FOR EACH ROW
  WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR OLD.email IS DISTINCT FROM NEW.email)
  EXECUTE FUNCTION signpost_end_password_resets();

REVOKE ALL ON FUNCTION signpost_forget_mail(), signpost_end_password_resets(),
  signpost_begin_password_reset(text, text, bytea, timestamptz, timestamptz),
  signpost_password_reset_of(bytea, timestamptz), signpost_reset_password(bytea, timestamptz, text) FROM PUBLIC;
