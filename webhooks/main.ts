/** Delivers webhooks. Any number of these processes share the work. */
import { systemClock } from '#common/clock.ts';
import { Encryption, parseSecretKeys } from '#common/encryption.ts';
import { shortUrlWith } from '#common/links/short-url.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { createLog, createMetrics, exposeCounter, exposeGauge, telemetryPart } from '#common/process/telemetry.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Chores } from './chores.ts';
import { Deliveries } from './deliveries.ts';
import { resolveWith } from './host-addresses.ts';
import { MessageStore } from './message-store.ts';

const config = processConfig('webhooks', [['WEBHOOKS_DATABASE_URL', 'DATABASE_URL'], 'SECRET_KEY']);
const name = config.INSTANCE || 'webhooks-0';
const log = createLog('webhooks', config);
const metrics = createMetrics('webhooks');

const url = config.WEBHOOKS_DATABASE_URL || config.DATABASE_URL;
const db = new Postgres({ url, name, onError: (err) => log.warn({ err }, 'Postgres is unavailable') });
const store = new MessageStore(db);
const deliveries = new Deliveries({
  store,
  encryption: new Encryption(parseSecretKeys(config.SECRET_KEY)),
  shortUrl: shortUrlWith(config),
  resolve: resolveWith(config.DNS_SERVERS),
  reachable: new ReachableAddresses(config.WEBHOOK_ALLOWED_NETWORKS),
  clock: systemClock,
  log,
});
const chores = new Chores({ store, clock: systemClock, log });

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
  'signpost_webhooks_disabled_total',
  'Endpoints that were disabled because they failed.',
  [],
  (set) => set({}, deliveries.disabled),
);
exposeGauge(metrics, 'signpost_webhooks_under_way', 'Attempts that are under way.', () => deliveries.underWay);
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

await new Lifecycle({ log }).run([
  { name: 'postgres', stop: () => db.close() },
  chores,
  telemetryPart(config, metrics, { postgres: () => db.isReady() }),
  deliveries,
]);
