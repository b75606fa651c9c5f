-- Which device has which click, and the device's answer. Redis has a copy for speed; this table is authoritative. A row
-- is valid as long as it exists: ingest deletes it some minutes after expires_at.
CREATE TABLE claims (
  -- One click, one device.
  click_id text PRIMARY KEY,
  app_id text NOT NULL,
  -- Empty if the app names no device; the click then belongs to the match alone.
  device text NOT NULL,
  match_id text NOT NULL,
  -- The match as it was answered, JSON.
  answer text NOT NULL,
  expires_at timestamptz NOT NULL
);
-- One device, one answer.
CREATE UNIQUE INDEX claims_device_key ON claims (app_id, device) WHERE device <> '';
CREATE INDEX claims_match_id ON claims (match_id);
CREATE INDEX claims_expires_at ON claims (expires_at);
