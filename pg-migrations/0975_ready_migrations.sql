-- What processes may rely on: migrations that have run, and after which the processes' roles got their rights.
CREATE TABLE ready_migrations (
  name text PRIMARY KEY
);
