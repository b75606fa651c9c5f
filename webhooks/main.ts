/** Delivers webhooks. Any number of these processes share the work. */
import { ClickHouse } from '#clickhouse/client.ts';
import { Encryption, parseSecretKeys } from '#common/encryption.ts';
import { resolveWith } from '#common/host-addresses.ts';
import { exposeHeld, InstallationState } from '#common/installation-state.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { clickhouseLack, postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, exposeCounter, exposeGauge, telemetryPart } from '#common/process/telemetry.ts';
import { urlsIn } from '#common/process/url-list.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { Chores } from './chores.ts';
import { queriesIn } from './click-query.ts';
import { Deliveries } from './deliveries.ts';
import { FanOut } from './fan-out.ts';
import { MessageStore } from './message-store.ts';
import { clicksIn } from './stored-clicks.ts';

/** Limits of one query. */
const readLimits = { executionSecondsMax: 10, rowsToReadMax: 100_000_000, resultRowsMax: 200_000 } as const;

const config = processConfig('webhooks', [['WEBHOOKS_DATABASE_URL', 'DATABASE_URL'], 'CLICKHOUSE_URL', 'SECRET_KEY']);
const name = config.INSTANCE || 'webhooks-0';
const log = createLog('webhooks', config);
const metrics = createMetrics('webhooks');

const url = config.WEBHOOKS_DATABASE_URL || config.DATABASE_URL;
const stores = new StoreLog(log);
const onPostgresError = stores.of('Postgres', config.WEBHOOKS_DATABASE_URL ? 'WEBHOOKS_DATABASE_URL' : 'DATABASE_URL');
const db = new Postgres({ url, name, onError: onPostgresError });
// Only the first of several servers, because ingest inserts there, and others may not have the rows yet.
const [first = ''] = urlsIn(config.CLICKHOUSE_URL);
const onError = stores.of('ClickHouse', 'CLICKHOUSE_URL');
const clickhouse = new ClickHouse({ url: first, reads: readLimits, requestTimeoutMs: 15_000, onError });
const store = new MessageStore(db);
// Receivers refuse a signature whose time is minutes off.
const storeClock = StoreClock.ofPostgres(db);
const secrets = parseSecretKeys(config.SECRET_KEY);
const state = new InstallationState({ db, secrets, log, sends: 'webhooks and postbacks' });
const fanOut = new FanOut({ db, clickhouse, log });
const deliveries = new Deliveries({
  store,
  encryption: new Encryption(secrets),
  shortUrl: shortUrlWith(config),
  readClicks: clicksIn(clickhouse),
  readQuery: queriesIn(clickhouse),
  resolve: resolveWith(config.DNS_SERVERS),
  reachable: new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS),
  clock: storeClock.now,
  log,
  maySend: state.maySend,
});
const chores = new Chores({ store, log, maySend: state.maySend, isHeld: () => state.heldSince !== null });

exposeHeld(metrics, state);
exposeCounter(
  metrics,
  'signpost_webhooks_attempts_total',
  'Attempts to deliver a message, by outcome.',
  ['outcome'],
  (set) => {
    for (const [outcome, count] of deliveries.attempts) set({ outcome }, count);
  },
);
exposeCounter(
  metrics,
  'signpost_webhooks_batches_total',
  'Batches of records that were turned into messages.',
  [],
  (set) => set({}, fanOut.counters.batches),
);
exposeCounter(
  metrics,
  'signpost_webhooks_postponed_batches_total',
  'Batches of records that could not be turned into messages, and are tried again.',
  [],
  (set) => set({}, fanOut.counters.postponed),
);
exposeCounter(
  metrics,
  'signpost_webhooks_disabled_total',
  'Endpoints that were disabled because they failed.',
  [],
  (set) => set({}, deliveries.disabled),
);
exposeCounter(
  metrics,
  'signpost_webhooks_beyond_held_total',
  'Messages that failed because their endpoint had its maximum of waiting ones while nothing was sent.',
  [],
  (set) => set({}, chores.beyondHeld),
);
exposeGauge(metrics, 'signpost_webhooks_under_way', 'Attempts in progress.', () => deliveries.underWay);
exposeGauge(
  metrics,
  'signpost_webhooks_pending',
  'Messages that wait for enabled endpoints; counted once a minute.',
  () => Math.round(chores.backlog.pending),
);
exposeGauge(
  metrics,
  'signpost_webhooks_overdue_seconds',
  'For how long the oldest message of an endpoint that does not fail has been due; measured once a minute.',
  () => chores.backlog.overdueMs / 1000,
);

const schema = new SchemaWait({ lacks: [postgresLack(db), clickhouseLack(clickhouse)], log });

await new Lifecycle({ log }).run([
  { name: 'postgres', stop: () => db.close() },
  { name: 'clickhouse', stop: () => clickhouse.close() },
  telemetryPart(config, metrics, {
    postgres: () => db.isReady(),
    clickhouse: () => clickhouse.isReachable(),
    secret: state.check,
    schema: schema.check,
  }),
  schema,
  storeClock,
  state,
  chores,
  fanOut,
  deliveries,
]);
