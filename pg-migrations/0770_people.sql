-- Invitations: one person may join an organization with a role. The token is in the link that they get; only its hash is
-- stored. A row lives until it is accepted or withdrawn; each new invitation deletes expired rows of all organizations.
CREATE TABLE invitations (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organizations ON DELETE CASCADE,
  email text NOT NULL CHECK (email = lower(email)),
  role text NOT NULL CHECK (role IN ('owner', 'member', 'viewer')),
  token_hash bytea NOT NULL,
  -- Invitations of someone who is no owner any more are not accepted.
  invited_by text NOT NULL REFERENCES users ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX invitations_token_hash_key ON invitations (token_hash);
CREATE UNIQUE INDEX invitations_email_key ON invitations (organization_id, email);
CREATE INDEX invitations_expiry ON invitations (expires_at);
CREATE INDEX invitations_inviter ON invitations (invited_by);

-- What people and server keys changed. Rows are only added, and deleted after a year by signpost_trim_audit_log.
CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id text NOT NULL,
  at timestamptz NOT NULL,
  actor_id text NOT NULL,
  -- As it was then: an e-mail address, or the name of a server key.
  actor_name text NOT NULL,
  -- The operation of the API.
  action text NOT NULL,
  target_id text NOT NULL,
  -- Names of the fields that were sent, never their values.
  fields text[] NOT NULL,
  address text NOT NULL,
  request_id text NOT NULL
);
CREATE INDEX audit_log_organization ON audit_log (organization_id, id);
CREATE INDEX audit_log_time ON audit_log (at);

-- The rules about people are kept here, so that the API's own role can break none of them by a plain statement.
CREATE FUNCTION signpost_is_owner(actor text, organization text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM public.memberships m JOIN public.users u ON u.id = m.user_id
    WHERE m.organization_id = organization AND m.user_id = actor AND m.role = 'owner' AND u.deleted_at IS NULL AND u.disabled_at IS NULL) $$;

-- Whether another owner who can log in is left. The organization's row must be locked.
CREATE FUNCTION signpost_has_other_owner(member text, organization text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM public.memberships m JOIN public.users u ON u.id = m.user_id
    WHERE m.organization_id = organization AND m.user_id <> member AND m.role = 'owner' AND u.deleted_at IS NULL AND u.disabled_at IS NULL) $$;

-- Each returns what became of the request: done, forbidden, absent, or last_owner.
CREATE FUNCTION signpost_set_role(actor text, organization text, member text, wanted text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  current_role_of_member text;
BEGIN
  PERFORM FROM organizations WHERE id = organization AND deleted_at IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT signpost_is_owner(actor, organization) THEN RETURN 'forbidden'; END IF;
  SELECT role INTO current_role_of_member FROM memberships WHERE organization_id = organization AND user_id = member;
  IF NOT FOUND THEN RETURN 'absent'; END IF;
  IF current_role_of_member = 'owner' AND wanted <> 'owner' AND NOT signpost_has_other_owner(member, organization) THEN
    RETURN 'last_owner';
  END IF;
  UPDATE memberships SET role = wanted WHERE organization_id = organization AND user_id = member;
  RETURN 'done';
END $$;

-- Owners remove anyone; everyone may leave.
CREATE FUNCTION signpost_remove_member(actor text, organization text, member text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  current_role_of_member text;
BEGIN
  PERFORM FROM organizations WHERE id = organization AND deleted_at IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT (actor = member OR signpost_is_owner(actor, organization)) THEN RETURN 'forbidden'; END IF;
  SELECT role INTO current_role_of_member FROM memberships WHERE organization_id = organization AND user_id = member;
  IF NOT FOUND THEN RETURN 'absent'; END IF;
  IF current_role_of_member = 'owner' AND NOT signpost_has_other_owner(member, organization) THEN RETURN 'last_owner'; END IF;
  DELETE FROM memberships WHERE organization_id = organization AND user_id = member;
  RETURN 'done';
END $$;

CREATE FUNCTION signpost_rename_organization(actor text, organization text, wanted text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  IF NOT signpost_is_owner(actor, organization) THEN RETURN 'forbidden'; END IF;
  UPDATE organizations SET name = wanted WHERE id = organization AND deleted_at IS NULL;
  RETURN CASE WHEN FOUND THEN 'done' ELSE 'absent' END;
END $$;

-- Only for someone who knows the hash of the present password, which the API has compared.
CREATE FUNCTION signpost_change_password(account text, present_hash text, new_hash text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  UPDATE users SET password_hash = new_hash
   WHERE id = account AND password_hash = present_hash AND deleted_at IS NULL AND disabled_at IS NULL;
  RETURN FOUND;
END $$;

-- What a token stands for: nothing once it has expired, or its inviter is no owner any more.
CREATE FUNCTION signpost_invitation_of(hash bytea, at timestamptz)
  RETURNS TABLE (id text, organization_id text, organization_name text, email text, role text, has_account boolean)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$
  SELECT i.id, i.organization_id, o.name, i.email, i.role,
         EXISTS (SELECT FROM users u WHERE u.email = i.email AND u.deleted_at IS NULL)
    FROM invitations i JOIN organizations o ON o.id = i.organization_id AND o.deleted_at IS NULL
   WHERE i.token_hash = hash AND i.expires_at > at AND signpost_is_owner(i.invited_by, i.organization_id) $$;

-- Joins the organization as an existing account, whose address must be the invited one, or as a new one. The outcome is
-- done, absent, account_exists, or other_account. Of several calls with one token, one is done.
CREATE FUNCTION signpost_accept_invitation(hash bytea, at timestamptz, account text, new_account text, full_name text, new_hash text)
  RETURNS TABLE (outcome text, joined_user text, joined_organization text, joined_role text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  invited record;
  invitee text := account;
BEGIN
  PERFORM FROM invitations WHERE token_hash = hash FOR UPDATE;
  SELECT * INTO invited FROM signpost_invitation_of(hash, at);
  IF NOT FOUND THEN RETURN QUERY SELECT 'absent', '', '', ''; RETURN; END IF;
  IF account IS NULL THEN
    invitee := new_account;
    INSERT INTO users (id, email, name, password_hash) VALUES (new_account, invited.email, full_name, new_hash)
      ON CONFLICT (email) WHERE deleted_at IS NULL DO NOTHING;
    IF NOT FOUND THEN RETURN QUERY SELECT 'account_exists', '', '', ''; RETURN; END IF;
  ELSE
    PERFORM FROM users WHERE id = account AND email = invited.email AND deleted_at IS NULL AND disabled_at IS NULL;
    IF NOT FOUND THEN RETURN QUERY SELECT 'other_account', '', '', ''; RETURN; END IF;
  END IF;
  INSERT INTO memberships (user_id, organization_id, role) VALUES (invitee, invited.organization_id, invited.role)
    ON CONFLICT (user_id, organization_id) DO NOTHING;
  DELETE FROM invitations WHERE token_hash = hash;
  RETURN QUERY SELECT 'done', invitee, m.organization_id, m.role FROM memberships m
    WHERE m.user_id = invitee AND m.organization_id = invited.organization_id;
END $$;

-- Deletes rows older than a year by this server's clock, and no others. @returns how many.
CREATE FUNCTION signpost_trim_audit_log(rows_max integer) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
  trimmed integer;
BEGIN
  DELETE FROM audit_log WHERE id IN (
    SELECT id FROM audit_log WHERE at < now() - interval '1 year' ORDER BY at LIMIT rows_max FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS trimmed = ROW_COUNT;
  RETURN trimmed;
END $$;

REVOKE ALL ON FUNCTION signpost_set_role(text, text, text, text), signpost_remove_member(text, text, text),
  signpost_rename_organization(text, text, text), signpost_change_password(text, text, text),
  signpost_invitation_of(bytea, timestamptz), signpost_accept_invitation(bytea, timestamptz, text, text, text, text),
  signpost_trim_audit_log(integer) FROM PUBLIC;
