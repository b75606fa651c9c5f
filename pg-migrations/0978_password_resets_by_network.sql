-- Which network caused the mail, as a keyed hash; empty if it does not matter. Strangers in one network cannot use up the mails
-- of a person.
ALTER TABLE mails ADD COLUMN requester text NOT NULL DEFAULT '';

-- When no further mail is sent, the newest link of the account works for longer: at most a day.
CREATE FUNCTION signpost_keep_password_reset(address text, at timestamptz, ends timestamptz) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  UPDATE password_resets SET expires_at = least(ends, created_at + interval '1 day')
   WHERE id = (SELECT r.id FROM password_resets r JOIN users u ON u.id = r.user_id
                WHERE u.email = address AND u.deleted_at IS NULL AND u.disabled_at IS NULL AND r.expires_at > at
                ORDER BY r.created_at DESC LIMIT 1) $$;
REVOKE ALL ON FUNCTION signpost_keep_password_reset(text, timestamptz, timestamptz) FROM PUBLIC;
