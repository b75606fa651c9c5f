/** Entry point of ingest, the process that stores the log in ClickHouse. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Counter, Gauge } from 'prom-client';
import { ClickHouse } from '#clickhouse/client.ts';
import { SlotLock } from '#common/journal/slot-lock.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { clickhouseLack, postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, exposeCounter, exposeGauge, telemetryPart } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { noFailpoints } from './failpoints.ts';
import { Ingest } from './ingest.ts';

// V8 counts the frames and batches in buffers against a limit that follows the objects alive, and those are few: at 20,000
// clicks/s it marked all of them four times a second, which was half of this process's CPU. Four times as much may be
// in use before it marks, instead of a third more. Peak memory went from 221 to 272 MiB.
setFlagsFromString('--heap-growing-percent=300');

const config = processConfig('ingest', [['INGEST_DATABASE_URL', 'DATABASE_URL'], 'NATS_URL', 'CLICKHOUSE_URL']);
const log = createLog('ingest', config);
const metrics = createMetrics('ingest');
const tracing = await Tracing.open('ingest', config, log, metrics);
// A restarted ingest reacquires its partitions at once, so no other process may run under its name.
const slot = join(config.DATA_DIR, 'ingest', config.INSTANCE || `pid-${process.pid}`);
mkdirSync(slot, { recursive: true });
const lock = await SlotLock.take(slot);
if (lock === undefined) {
  log.fatal({ slot }, 'another ingest with this name is running: set INSTANCE to another name');
  process.exit(1);
}

/** Set once the log is reachable; its metrics are reported from then on. */
let ingest: Ingest | undefined;

new Counter({
  name: 'signpost_ingest_sink_total',
  help: 'Actions and outcomes of the sink, by what.',
  labelNames: ['what'],
  registers: [metrics],
  collect() {
    this.reset();
    for (const [what, count] of Object.entries(ingest?.counters ?? {})) this.inc({ what }, count);
    for (const { queue, reader } of ingest?.owners ?? []) {
      for (const [what, count] of Object.entries({ ...queue?.counters, ...reader?.counters }))
        this.inc({ what }, count);
    }
  },
});
new Counter({
  name: 'signpost_ingest_recent_clicks_total',
  help: 'Actions and outcomes of the feed of recent clicks to Redis, by what.',
  labelNames: ['what'],
  registers: [metrics],
  collect() {
    this.reset();
    for (const [what, count] of Object.entries(ingest?.feedCounters ?? {})) this.inc({ what }, count);
  },
});
new Counter({
  name: 'signpost_ingest_step_seconds_total',
  help: 'Time spent in each step of enrichment.',
  labelNames: ['step'],
  registers: [metrics],
  collect() {
    this.reset();
    for (const [step, figures] of ingest?.enrichment.figures ?? []) this.inc({ step }, figures.microseconds / 1e6);
  },
});
exposeCounter(
  metrics,
  'signpost_ingest_click_lines_total',
  'Lines of clicks, by how they were read; those parsed as JSON cost several times as much.',
  ['what'],
  (set) => {
    for (const [what, count] of Object.entries(ingest?.enrichment.clickLines ?? {})) set({ what }, count);
  },
);
new Gauge({
  name: 'signpost_ingest_waiting_bytes',
  help: 'Bytes of frames that wait for their batch.',
  registers: [metrics],
  collect() {
    this.set(ingest?.owners.reduce((sum, owner) => sum + (owner.queue?.waitingBytes ?? 0), 0) ?? 0);
  },
});

exposeCounter(
  metrics,
  'signpost_ingest_log_total',
  'Actions that keep room in the log, by action.',
  ['what'],
  (set) => {
    for (const [what, count] of Object.entries(ingest?.logRoom.counters ?? {})) set({ what }, count);
  },
);
new Gauge({
  name: 'signpost_ingest_clock_ahead_seconds',
  help: 'How far the clock of a machine with journals is ahead of that of Postgres; negative if it is behind.',
  labelNames: ['machine'],
  registers: [metrics],
  collect() {
    this.reset();
    for (const [machine, aheadMs] of ingest?.chores.clocksAhead ?? []) this.set({ machine }, aheadMs / 1000);
  },
});
exposeGauge(metrics, 'signpost_ingest_log_bytes', 'Bytes in the log.', () => ingest?.logRoom.fill?.bytes ?? 0);
exposeGauge(
  metrics,
  'signpost_ingest_log_bytes_max',
  'Bytes at which the log accepts no more.',
  () => ingest?.logRoom.fill?.bytesMax ?? 0,
);
new Gauge({
  name: 'signpost_ingest_partitions',
  help: 'Partitions of the log that this process owns.',
  registers: [metrics],
  collect() {
    this.set(ingest?.owners.filter((owner) => owner.state === 'running').length ?? 0);
  },
});
exposeGauge(
  metrics,
  'signpost_ingest_partitions_in_all',
  'Partitions of the log that need an owner, as this process sees them.',
  () => ingest?.partitions.figures.partitions ?? 0,
);
exposeGauge(
  metrics,
  'signpost_ingest_deletion_behind_seconds',
  'How far the time by which old rows are deleted is behind the clock of Postgres.',
  () => (ingest?.chores.deletionClock.behindMs ?? 0) / 1000,
);
new Gauge({
  name: 'signpost_ingest_members',
  help: 'Live ingest processes, as this process sees them; one_owner is 1 while a single one owns all partitions.',
  labelNames: ['what'],
  registers: [metrics],
  collect() {
    const { members, isOne } = ingest?.partitions.figures ?? { members: 0, isOne: false };
    this.set({ what: 'living' }, members);
    this.set({ what: 'one_owner' }, Number(isOne));
  },
});
new Gauge({
  name: 'signpost_ingest_redis_memory_policy_is_safe',
  help: '0 while the maxmemory-policy of Redis is unsafe for a full Redis, or Redis reports none, as the stand-in of npm start does.',
  registers: [metrics],
  collect() {
    this.set(Number((ingest?.chores.memoryPolicy.fault ?? '') === ''));
  },
});

/** Its own connections, for the start only. */
const schemaDb = new Postgres({
  url: config.INGEST_DATABASE_URL || config.DATABASE_URL,
  name: 'ingest',
  connectionsMax: 1,
});
const schemaClickhouse = new ClickHouse({ url: config.CLICKHOUSE_URL, connectionsMax: 1 });
const schema = new SchemaWait({ lacks: [postgresLack(schemaDb)], needs: true, log });
// Rows that ClickHouse refuses would become dead letters, so nothing is stored before it is known to have the schema.
const storeSchema = new SchemaWait({ lacks: [clickhouseLack(schemaClickhouse)], needs: true, log });

const notThere = 'the log is not reachable yet';

await new Lifecycle({ log }).run([
  tracingPart(tracing),
  { name: 'lock', stop: () => lock.release() },
  telemetryPart(config, metrics, {
    nats: () => ingest?.nats.isConnected || 'not connected',
    postgres: () => ingest?.postgres.isReady() ?? notThere,
    clickhouse: () => ingest?.clickhouse.isReachable() ?? notThere,
    schema: async () => {
      const found = await schema.check();
      return found === true ? await storeSchema.check() : found;
    },
    log: () => ingest?.logRoom.refusal || true,
    rows: () => ingest?.owners.find((owner) => owner.refusal !== '')?.refusal ?? true,
    partitions: () => ingest?.partitions.readiness ?? notThere,
  }),
  {
    name: schema.name,
    start: async () => {
      void storeSchema.start().then(() => schemaClickhouse.close());
      await schema.start();
      await schemaDb.close();
    },
  },
  {
    name: 'ingest',
    start: async () => {
      ingest = await Ingest.create({
        config,
        failpoints: noFailpoints,
        hasSchema: () => storeSchema.isThere,
        stores: new StoreLog(log),
        tracing,
        log: (fields, line, level) => log[level ?? 'info'](fields, line),
        end: (reason) => {
          log.fatal(reason);
          process.exit(1);
        },
      });
      ingest.start();
    },
    stop: () => ingest?.stop(),
  },
]);
