/**
 * Ingest as started by tests: a process that dies at the failpoint named on its command line, for example `before:2`.
 */
import { loadConfig } from '#common/process/config.ts';
import { deadlyFailpoint, noFailpoints } from '#ingest/failpoints.ts';
import { Ingest } from '#ingest/ingest.ts';

const spec = process.argv[2];
const ingest = await Ingest.create({
  config: loadConfig(['INGEST_DATABASE_URL', 'NATS_URL', 'CLICKHOUSE_URL']),
  failpoints: spec === undefined || spec === '' ? noFailpoints : deadlyFailpoint(spec),
  log: (fields, line) => process.stdout.write(`${line} ${JSON.stringify(fields)}\n`),
  end: (reason) => {
    process.stdout.write(`${reason}\n`, () => process.exit(1));
  },
});
ingest.start();
process.on('SIGTERM', () => {
  void ingest.stop().then(() => {
    process.stdout.write(`${JSON.stringify(ingest.counters)}\n`, () => process.exit(0));
  });
});
