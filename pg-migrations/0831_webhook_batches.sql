-- Webhooks for records. A batch is owed in the transaction that moves the marks of its records: that one deletes the
-- batch from ingest.batch, and a trigger adds it here. The webhooks process reads its rows from ClickHouse, and adds the
-- messages in the transaction that deletes it from here.

-- The only names of events that an endpoint gets as event.recorded.
ALTER TABLE webhook_endpoints ADD COLUMN event_names text[] CHECK (cardinality(event_names) > 0);

-- A row lives until its messages exist: for moments, or for as long as no webhooks process runs, at most 30 days.
CREATE TABLE webhook_batches (
  log_partition integer NOT NULL,
  batch_no bigint NOT NULL,
  -- Above batch_no for the batches of which Postgres has lost what it knew.
  batch_no_to bigint NOT NULL,
  -- Tables and times of its rows, as in ingest.batch; empty if they are not known.
  parts jsonb NOT NULL,
  owed_at timestamptz NOT NULL DEFAULT now(),
  -- Later than owed_at after a failure.
  due_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (log_partition, batch_no)
);

CREATE FUNCTION signpost_records_are_owed() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS
  $$ SELECT EXISTS (SELECT FROM webhook_endpoints WHERE disabled_at IS NULL AND events && ARRAY[
       'click.batch', 'install.recorded', 'install.attributed', 'event.recorded', 'conversion.recorded', 'match.refused']) $$;

-- Of a batch that is withdrawn because ClickHouse has none of it, no rows are found later.
CREATE FUNCTION signpost_owe_batches() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  IF signpost_records_are_owed() THEN
    INSERT INTO webhook_batches (log_partition, batch_no, batch_no_to, parts)
      SELECT partition, batch_no, batch_no, parts FROM gone WHERE batch_no > 0
      ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER batches_owed AFTER DELETE ON ingest.batch REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION signpost_owe_batches();

-- A batch that is partial from its beginning stands for all that ClickHouse has above it, after Postgres was restored. The
-- last of their numbers is stored later in the same transaction.
CREATE FUNCTION signpost_owe_lost_batches() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
  IF signpost_records_are_owed() THEN
    INSERT INTO webhook_batches AS known (log_partition, batch_no, batch_no_to, parts)
      SELECT NEW.partition, NEW.batch_no, last_batch_no, '[]' FROM ingest.last_batch WHERE partition = NEW.partition
      ON CONFLICT (log_partition, batch_no) DO UPDATE SET parts = '[]', batch_no_to = greatest(known.batch_no_to, excluded.batch_no_to);
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER lost_batches_owed AFTER INSERT ON ingest.batch DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.is_partial) EXECUTE FUNCTION signpost_owe_lost_batches();
