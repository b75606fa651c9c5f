-- What every process of an installation must know before it does harm: whether it has the right SECRET_KEY, and whether this is a
-- restored copy, whose webhooks and mail the original may have sent.
CREATE TABLE installation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  -- Which server and database this is, once a process has looked: a dump that was restored elsewhere names another.
  store text NOT NULL DEFAULT '',
  -- A known text, encrypted with a key of SECRET_KEY.
  secret_check text,
  -- Since when nothing is sent; null: everything is.
  outbound_held_since timestamptz
);
INSERT INTO installation DEFAULT VALUES;

CREATE FUNCTION signpost_store() RETURNS text LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
  SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
$$;

CREATE FUNCTION signpost_installation() RETURNS TABLE (secret_check text, outbound_held_since timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM installation i WHERE i.store <> signpost_store()) THEN
    UPDATE installation i SET outbound_held_since = now() WHERE i.store <> '' AND i.store <> signpost_store() AND i.outbound_held_since IS NULL;
    UPDATE installation i SET store = signpost_store() WHERE i.store = '';
  END IF;
  RETURN QUERY SELECT i.secret_check, i.outbound_held_since FROM installation i;
END $$;

-- For the first process that writes the known text: it must have the key of what is stored already.
CREATE FUNCTION signpost_sealed_sample() RETURNS TABLE (id text, api_key_ciphertext text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.id, a.api_key_ciphertext FROM apps a WHERE a.deleted_at IS NULL ORDER BY a.created_at DESC LIMIT 1
$$;
CREATE FUNCTION signpost_keep_secret_check(p_sealed text) RETURNS void
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  UPDATE installation SET secret_check = p_sealed WHERE secret_check IS NULL
$$;
REVOKE ALL ON FUNCTION signpost_store(), signpost_installation(), signpost_sealed_sample(), signpost_keep_secret_check(text) FROM PUBLIC;
