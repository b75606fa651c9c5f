-- Names of devices and users that an app declared to be the same, through another service's client. Looked up in both
-- directions; a row is deleted 90 days after it was last declared. No statistics: they would contain samples of the
-- names.
CREATE TABLE device_aliases (
  app_id text NOT NULL,
  id text NOT NULL,
  previous_id text NOT NULL,
  made_at timestamptz NOT NULL,
  PRIMARY KEY (app_id, id, previous_id)
);
CREATE INDEX device_aliases_previous ON device_aliases (app_id, previous_id);
CREATE INDEX device_aliases_made_at ON device_aliases (made_at);
ALTER TABLE device_aliases ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN previous_id SET STATISTICS 0;
