-- Only ASCII letters of an address lose their case, whatever the locale of the database: lower() makes a k of the Kelvin sign,
-- and so of another person's address this one. Stored addresses stay as they are.
ALTER TABLE users DROP CONSTRAINT users_email_check;
ALTER TABLE users ADD CONSTRAINT users_email_check
  CHECK (email = lower(email COLLATE "C") AND char_length(email) BETWEEN 3 AND 320);
ALTER TABLE invitations DROP CONSTRAINT invitations_email_check;
ALTER TABLE invitations ADD CONSTRAINT invitations_email_check CHECK (email = lower(email COLLATE "C"));
