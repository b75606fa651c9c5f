/** Entry point of the SDK edge: keys, matches, installs, events. */
import { systemClock } from '#common/clock.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { drainMs, ServerPart } from '#common/http/server-part.ts';
import { InstallationState } from '#common/installation-state.ts';
import { openEdgeJournal } from '#common/journal/edge-journal.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { ReadyOnce } from '#common/process/ready-once.ts';
import { postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, telemetryPart } from '#common/process/telemetry.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { exposeGateway } from './counters.ts';
import { InstallRetention } from './install/install-retention.ts';
import { NatsClickArchive } from './match/click-archive.ts';
import { gatewayParts } from './parts.ts';

const config = processConfig('gateway', [
  ['GATEWAY_DATABASE_URL', 'DATABASE_URL'],
  'REDIS_URL',
  'NATS_URL',
  'SECRET_KEY',
  'ADDRESS_KEY',
]);
const name = config.INSTANCE || 'gateway-0';
const log = createLog('gateway', config);
const metrics = createMetrics('gateway');
const tracing = await Tracing.open('gateway', config, log, metrics);

const url = config.GATEWAY_DATABASE_URL || config.DATABASE_URL;
const stores = new StoreLog(log);
const onPostgresError = stores.of('Postgres', config.GATEWAY_DATABASE_URL ? 'GATEWAY_DATABASE_URL' : 'DATABASE_URL');
const db = new Postgres({ url, name, around: tracing?.trails.around('postgresql'), onError: onPostgresError });
const onRedisError = stores.of('Redis', 'REDIS_URL');
const redis = new Redis({ url: config.REDIS_URL, name, onError: onRedisError });
const journal = await openEdgeJournal(config, name, (line) => log.error(line));
const storeClock = StoreClock.ofRedis(redis, { onError: onRedisError });
const cache = new LinkCache({
  redis,
  db,
  clock: storeClock.now,
  entriesMax: config.LINK_CACHE_ENTRIES,
  bytesMax: config.LINK_CACHE_BYTES,
});
// NATS may connect later: until then, clicks older than some minutes cannot be looked up; everything else works.
const onNatsError = stores.of('NATS', 'NATS_URL');
const { INSTALLATION: installation, NATS_URL: natsUrl } = config;
const archive = new NatsClickArchive(
  Nats.connect({ url: natsUrl, name, installation, onRefusal: onNatsError, onError: onNatsError }),
);
const state = new InstallationState({ db, secrets: parseSecretKeys(config.SECRET_KEY), log });
const gateway = gatewayParts(config, { db, redis, journal, cache, archive, state, storeClock }, systemClock);
exposeGateway(metrics, gateway.counters, journal);

const server = new ServerPart({
  config,
  log,
  stores,
  metrics,
  routes: mountRoutes(gateway.mount),
  guardUnknown: gateway.guard,
  tracing,
});

const schema = new SchemaWait({ lacks: [postgresLack(db)], log });

await new Lifecycle({ log, drainMs: drainMs + 5_000 }).run([
  tracingPart(tracing),
  { name: 'journal', stop: () => journal.close() },
  { name: 'postgres', stop: () => db.close() },
  { name: 'redis', start: () => redis.connect(), stop: () => redis.close() },
  telemetryPart(
    config,
    metrics,
    {
      listening: server.check,
      journal: () => journal.isWritable || 'nothing can be recorded',
      postgres: () => db.isReady(),
      redis: () => redis.isReady(),
      secret: state.check,
      schema: schema.check,
    },
    { laterChecks: ['journal'], readyOnce: new ReadyOnce('gateway', config) },
  ),
  schema,
  storeClock,
  { name: 'link cache', start: () => cache.start(), stop: () => cache.stop() },
  state,
  new InstallRetention({ db, retentionDays: config.RETENTION_DAYS, log }),
  server,
]);
