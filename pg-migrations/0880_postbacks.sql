-- Postbacks to ad networks: endpoints that get, for each record, an unsigned request that is made from a template. Their
-- messages, attempts and schedule are those of webhooks.
ALTER TABLE webhook_endpoints
  -- Null: a webhook. Its url is a template otherwise, as is the body.
  ADD COLUMN postback_method text CHECK (postback_method IN ('GET', 'POST')),
  ADD COLUMN postback_body text CHECK (char_length(postback_body) <= 2048),
  -- The only campaigns of which it gets records; null: all.
  ADD COLUMN campaigns text[] CHECK (cardinality(campaigns) > 0),
  ALTER COLUMN secret_ciphertext DROP NOT NULL,
  ADD CHECK ((secret_ciphertext IS NULL) = (postback_method IS NOT NULL)),
  ADD CHECK (postback_method IS NOT NULL OR (postback_body IS NULL AND campaigns IS NULL));
