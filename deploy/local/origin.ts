/** One origin for the whole API on this machine: the dashboard's endpoints and the SDK's, on one port with TLS. */
import { randomUUID } from 'node:crypto';
import { exposeAsOf } from '#api/analytics/as-of.ts';
import { PostgresAuditTurns } from '#api/analytics/audit-turns.ts';
import { HourlyAudit } from '#api/analytics/hourly-audit.ts';
import { hostRules } from '#api/apps/host.ts';
import { certificateQuestion } from '#api/apps/served-host.ts';
import { DashboardFiles } from '#api/dashboard-files.ts';
import { docsRoutes } from '#api/docs/routes.ts';
import { exposeMail } from '#api/mail/mail-metrics.ts';
import { exposeLearner } from '#api/migration/learner-metrics.ts';
import { exposeOutbox } from '#api/outbox-metrics.ts';
import { apiParts, readLimits } from '#api/parts.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { systemClock } from '#common/clock.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { drainMs, ServerPart } from '#common/http/server-part.ts';
import { exposeHeld } from '#common/installation-state.ts';
import { openEdgeJournal } from '#common/journal/edge-journal.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { ReadyOnce } from '#common/process/ready-once.ts';
import { clickhouseLack, postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, telemetryPart } from '#common/process/telemetry.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { exposeGateway } from '#gateway/counters.ts';
import { InstallRetention } from '#gateway/install/install-retention.ts';
import { NatsClickArchive } from '#gateway/match/click-archive.ts';
import { gatewayParts } from '#gateway/parts.ts';

const config = processConfig('origin', [
  ['API_DATABASE_URL', 'DATABASE_URL'],
  ['GATEWAY_DATABASE_URL', 'DATABASE_URL'],
  ...(['REDIS_URL', 'NATS_URL', 'CLICKHOUSE_URL', 'SECRET_KEY', 'ADDRESS_KEY'] as const),
]);
const name = config.INSTANCE || 'origin-0';
const log = createLog('origin', config);
const metrics = createMetrics('origin');
const tracing = await Tracing.open('origin', config, log, metrics);

const stores = new StoreLog(log);
const apiUrl = config.API_DATABASE_URL || config.DATABASE_URL;
const gatewayUrl = config.GATEWAY_DATABASE_URL || config.DATABASE_URL;
const ofPostgres = { name, around: tracing?.trails.around('postgresql') };
const nameOf = (own: 'API_DATABASE_URL' | 'GATEWAY_DATABASE_URL') => (config[own] ? own : 'DATABASE_URL');
const apiDb = new Postgres({ url: apiUrl, ...ofPostgres, onError: stores.of('Postgres', nameOf('API_DATABASE_URL')) });
const onGatewayDbError = stores.of('Postgres', nameOf('GATEWAY_DATABASE_URL'));
const gatewayDb = new Postgres({ url: gatewayUrl, ...ofPostgres, onError: onGatewayDbError });
const onRedisError = stores.of('Redis', 'REDIS_URL');
const redis = new Redis({ url: config.REDIS_URL, name, onError: onRedisError });
const around = tracing?.trails.around('clickhouse');
const onClickHouseError = stores.of('ClickHouse', 'CLICKHOUSE_URL');
const clickhouse = new ClickHouse({
  url: config.CLICKHOUSE_URL,
  reads: readLimits,
  around,
  onError: onClickHouseError,
});

const journal = await openEdgeJournal(config, name, (line) => log.error(line));
const redisClock = StoreClock.ofRedis(redis, { onError: onRedisError });
const cache = new LinkCache({
  redis,
  db: gatewayDb,
  clock: redisClock.now,
  entriesMax: config.LINK_CACHE_ENTRIES,
  bytesMax: config.LINK_CACHE_BYTES,
});

const postgresClock = StoreClock.ofPostgres(apiDb);
const api = apiParts(config, { db: apiDb, redis, clickhouse, log, stores }, postgresClock.now);
exposeAsOf(metrics, apiDb);
exposeHeld(metrics, api.state);
exposeOutbox(metrics, api.outbox);
exposeMail(metrics, api.mailer);
exposeLearner(metrics, api.linkLearner);
// NATS may connect later; until then, clicks older than some minutes can't be looked up, and everything else works.
const onNatsError = stores.of('NATS', 'NATS_URL');
const { INSTALLATION: installation, NATS_URL: url } = config;
const archive = new NatsClickArchive(
  Nats.connect({ url, name, installation, onRefusal: onNatsError, onError: onNatsError }),
);
const gateway = gatewayParts(
  config,
  { db: gatewayDb, redis, journal, cache, archive, state: api.state, storeClock: redisClock },
  systemClock,
);
exposeGateway(metrics, gateway.counters, journal);
const documented = [...api.mount.routes, ...gateway.mount.routes];
const docs = { routes: docsRoutes(documented, api.about), deps: null, guard: api.guard };

const routes = [...mountRoutes(api.mount), ...mountRoutes(gateway.mount), ...mountRoutes(docs)];
const pages = DashboardFiles.load();
const server = new ServerPart({ config, log, stores, metrics, routes, guardUnknown: api.guard, pages, tracing });

const schema = new SchemaWait({
  lacks: [postgresLack(apiDb), postgresLack(gatewayDb), clickhouseLack(clickhouse)],
  log,
});

await new Lifecycle({ log, drainMs: drainMs + 5_000 }).run([
  tracingPart(tracing),
  { name: 'journal', stop: () => journal.close() },
  { name: 'postgres of the API', stop: () => apiDb.close() },
  { name: 'postgres of the SDK endpoints', stop: () => gatewayDb.close() },
  { name: 'clickhouse', stop: () => clickhouse.close() },
  { name: 'redis', start: () => redis.connect(), stop: () => redis.close() },
  telemetryPart(
    config,
    metrics,
    {
      listening: server.check,
      journal: () => journal.isWritable || 'nothing can be recorded',
      postgres: async () => (await apiDb.isReady()) && (await gatewayDb.isReady()),
      redis: () => redis.isReady(),
      clickhouse: () => clickhouse.isReachable(),
      secret: api.state.check,
      schema: schema.check,
    },
    {
      questions: certificateQuestion(apiDb, hostRules(config)),
      laterChecks: ['journal'],
      readyOnce: new ReadyOnce('origin', config),
    },
  ),
  schema,
  postgresClock,
  redisClock,
  { name: 'link cache', start: () => cache.start(), stop: () => cache.stop() },
  { name: 'outbox', start: () => api.outbox.start(), stop: () => api.outbox.stop() },
  api.state,
  api.hostChecks,
  api.imports,
  api.linkLearner,
  api.mailer,
  new HourlyAudit({
    clickhouse,
    turns: new PostgresAuditTurns(apiDb, randomUUID()),
    metrics,
    log,
    clock: postgresClock.now,
  }),
  new InstallRetention({ db: gatewayDb, retentionDays: config.RETENTION_DAYS, log }),
  server,
  { name: 'live feed', stop: () => api.live.stop() },
]);
