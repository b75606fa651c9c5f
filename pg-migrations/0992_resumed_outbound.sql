-- What a restored copy held is neither old nor a backlog: its messages wait, and count, from here on.
ALTER TABLE installation ADD COLUMN outbound_resumed_at timestamptz;
