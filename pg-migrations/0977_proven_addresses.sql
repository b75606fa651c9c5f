-- An account whose address nobody has proven: it accepted an invitation whose link the inviter saw. A mailed link or a
-- login through a provider proves the address. What was set before, by whoever accepted, then ends.
ALTER TABLE users ADD COLUMN unverified_since timestamptz;
-- Invitations whose link only the mail has.
ALTER TABLE invitations ADD COLUMN is_by_mail boolean NOT NULL DEFAULT false;

-- Accounts that accepted an invitation within the year of the audit log, and were proven by neither since.
UPDATE users u SET unverified_since = u.created_at
 WHERE u.deleted_at IS NULL
   AND EXISTS (SELECT FROM audit_log l WHERE l.actor_id = u.id AND l.action = 'acceptInvitation')
   AND NOT EXISTS (SELECT FROM audit_log l WHERE l.actor_id = u.id AND l.action = 'resetPassword')
   AND NOT EXISTS (SELECT FROM user_identities i WHERE i.user_id = u.id);

-- Whoever calls it has seen a proof. True if the address was not proven before: the password and second factor are then gone,
-- and the caller ends the logins.
CREATE FUNCTION signpost_prove_address(account text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  UPDATE users SET unverified_since = NULL, password_hash = NULL WHERE id = account AND unverified_since IS NOT NULL;
  IF NOT FOUND THEN RETURN false; END IF;
  DELETE FROM recovery_codes WHERE user_id = account;
  DELETE FROM user_totp WHERE user_id = account;
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION signpost_reset_password(hash bytea, at timestamptz, new_hash text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  account text;
BEGIN
  SELECT user_id INTO account FROM signpost_password_reset_of(hash, at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM users WHERE id = account AND deleted_at IS NULL AND disabled_at IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  DELETE FROM password_resets WHERE token_hash = hash AND expires_at > at;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM signpost_prove_address(account);
  UPDATE users SET password_hash = new_hash WHERE id = account;
  RETURN account;
END $$;

-- The outcome may also be unverified: an account that is not proven joins no further organization.
CREATE OR REPLACE FUNCTION signpost_accept_invitation(hash bytea, at timestamptz, account text, new_account text, full_name text, new_hash text)
  RETURNS TABLE (outcome text, joined_user text, joined_organization text, joined_role text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  invited record;
  invitee text := account;
  is_mailed boolean;
BEGIN
  SELECT is_by_mail INTO is_mailed FROM invitations WHERE token_hash = hash FOR UPDATE;
  SELECT * INTO invited FROM signpost_invitation_of(hash, at);
  IF NOT FOUND THEN RETURN QUERY SELECT 'absent', '', '', ''; RETURN; END IF;
  IF account IS NULL THEN
    invitee := new_account;
    INSERT INTO users (id, email, name, password_hash, unverified_since)
      VALUES (new_account, invited.email, full_name, new_hash, CASE WHEN NOT is_mailed THEN now() END)
      ON CONFLICT (email) WHERE deleted_at IS NULL DO NOTHING;
    IF NOT FOUND THEN RETURN QUERY SELECT 'account_exists', '', '', ''; RETURN; END IF;
  ELSE
    PERFORM FROM users WHERE id = account AND email = invited.email AND deleted_at IS NULL AND disabled_at IS NULL;
    IF NOT FOUND THEN RETURN QUERY SELECT 'other_account', '', '', ''; RETURN; END IF;
    PERFORM FROM users WHERE id = account AND unverified_since IS NULL FOR SHARE;
    IF NOT FOUND THEN RETURN QUERY SELECT 'unverified', '', '', ''; RETURN; END IF;
  END IF;
  INSERT INTO memberships (user_id, organization_id, role) VALUES (invitee, invited.organization_id, invited.role)
    ON CONFLICT (user_id, organization_id) DO NOTHING;
  DELETE FROM invitations WHERE token_hash = hash;
  RETURN QUERY SELECT 'done', invitee, m.organization_id, m.role FROM memberships m
    WHERE m.user_id = invitee AND m.organization_id = invited.organization_id;
END $$;

REVOKE ALL ON FUNCTION signpost_prove_address(text) FROM PUBLIC;

-- Whether the address has an account is only told to someone who has the mail: an inviter without mail has the token too.
CREATE OR REPLACE FUNCTION signpost_invitation_of(hash bytea, at timestamptz)
  RETURNS TABLE (id text, organization_id text, organization_name text, email text, role text, has_account boolean)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT i.id, i.organization_id, o.name, i.email, i.role,
         i.is_by_mail AND EXISTS (SELECT FROM users u WHERE u.email = i.email AND u.deleted_at IS NULL)
    FROM invitations i JOIN organizations o ON o.id = i.organization_id AND o.deleted_at IS NULL
   WHERE i.token_hash = hash AND i.expires_at > at AND signpost_is_owner(i.invited_by, i.organization_id) $$;
