-- When a message was last asked for again, so that a repeated request for the same time range does not send it again.
ALTER TABLE webhook_messages ADD COLUMN replayed_at timestamptz;
