/**
 * The dashboard's API as a separate process. On a single machine, the origin process serves it together with the SDK
 * endpoints.
 */
import { randomUUID } from 'node:crypto';
import { ClickHouse } from '#clickhouse/client.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { drainMs, ServerPart } from '#common/http/server-part.ts';
import { exposeHeld } from '#common/installation-state.ts';
import { processConfig } from '#common/process/config.ts';
import { Lifecycle } from '#common/process/lifecycle.ts';
import { ReadyOnce } from '#common/process/ready-once.ts';
import { clickhouseLack, postgresLack, SchemaWait } from '#common/process/schema-wait.ts';
import { StoreLog } from '#common/process/store-log.ts';
import { createLog, createMetrics, telemetryPart } from '#common/process/telemetry.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { StoreClock } from '#common/stores/store-clock.ts';
import { Tracing, tracingPart } from '#common/tracing/tracing.ts';
import { exposeAsOf } from './analytics/as-of.ts';
import { PostgresAuditTurns } from './analytics/audit-turns.ts';
import { HourlyAudit } from './analytics/hourly-audit.ts';
import { hostRules } from './apps/host.ts';
import { certificateQuestion } from './apps/served-host.ts';
import { DashboardFiles } from './dashboard-files.ts';
import { docsRoutes } from './docs/routes.ts';
import { exposeMail } from './mail/mail-metrics.ts';
import { exposeLearner } from './migration/learner-metrics.ts';
import { exposeOutbox } from './outbox-metrics.ts';
import { apiParts, readLimits } from './parts.ts';

const config = processConfig('api', [
  ['API_DATABASE_URL', 'DATABASE_URL'],
  'REDIS_URL',
  'CLICKHOUSE_URL',
  'SECRET_KEY',
]);
const name = config.INSTANCE || 'api-0';
const log = createLog('api', config);
const metrics = createMetrics('api');
const tracing = await Tracing.open('api', config, log, metrics);

const url = config.API_DATABASE_URL || config.DATABASE_URL;
const stores = new StoreLog(log);
const onPostgresError = stores.of('Postgres', config.API_DATABASE_URL ? 'API_DATABASE_URL' : 'DATABASE_URL');
const db = new Postgres({ url, name, around: tracing?.trails.around('postgresql'), onError: onPostgresError });
const redis = new Redis({ url: config.REDIS_URL, name, onError: stores.of('Redis', 'REDIS_URL') });
const around = tracing?.trails.around('clickhouse');
const onError = stores.of('ClickHouse', 'CLICKHOUSE_URL');
const clickhouse = new ClickHouse({ url: config.CLICKHOUSE_URL, reads: readLimits, around, onError });

const storeClock = StoreClock.ofPostgres(db);
const api = apiParts(config, { db, redis, clickhouse, log, stores }, storeClock.now);
exposeAsOf(metrics, db);
exposeHeld(metrics, api.state);
exposeOutbox(metrics, api.outbox);
exposeMail(metrics, api.mailer);
exposeLearner(metrics, api.linkLearner);
const docs = { routes: docsRoutes(api.mount.routes, api.about), deps: null, guard: api.guard };

const routes = [...mountRoutes(api.mount), ...mountRoutes(docs)];
const pages = DashboardFiles.load();
const server = new ServerPart({ config, log, stores, metrics, routes, guardUnknown: api.guard, pages, tracing });

const schema = new SchemaWait({ lacks: [postgresLack(db), clickhouseLack(clickhouse)], log });

await new Lifecycle({ log, drainMs: drainMs + 5_000 }).run([
  tracingPart(tracing),
  { name: 'postgres', stop: () => db.close() },
  { name: 'clickhouse', stop: () => clickhouse.close() },
  { name: 'redis', start: () => redis.connect(), stop: () => redis.close() },
  telemetryPart(
    config,
    metrics,
    {
      listening: server.check,
      postgres: () => db.isReady(),
      redis: () => redis.isReady(),
      clickhouse: () => clickhouse.isReachable(),
      secret: api.state.check,
      schema: schema.check,
    },
    { questions: certificateQuestion(db, hostRules(config)), readyOnce: new ReadyOnce('api', config) },
  ),
  schema,
  storeClock,
  new HourlyAudit({ clickhouse, turns: new PostgresAuditTurns(db, randomUUID()), metrics, log, clock: storeClock.now }),
  { name: 'outbox', start: () => api.outbox.start(), stop: () => api.outbox.stop() },
  api.state,
  api.hostChecks,
  api.imports,
  api.linkLearner,
  api.mailer,
  server,
  { name: 'live feed', stop: () => api.live.stop() },
]);
