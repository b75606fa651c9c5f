-- Installs are deleted at the maximum age of raw records. No query plan depends on the values of ids: each look-up uses
-- a whole key. So they need no statistics, which would contain samples of them.
CREATE INDEX install_answers_by_time ON install_answers (created_at);
CREATE INDEX install_names_by_install ON install_names (app_id, install_id);
ALTER TABLE install_answers ALTER COLUMN install_id SET STATISTICS 0, ALTER COLUMN click_id SET STATISTICS 0,
  ALTER COLUMN answer SET STATISTICS 0, ALTER COLUMN record SET STATISTICS 0;
ALTER TABLE install_names ALTER COLUMN name SET STATISTICS 0, ALTER COLUMN install_id SET STATISTICS 0;
