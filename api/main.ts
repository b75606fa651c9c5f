/** The dashboard's API in a process of its own. On one machine the origin serves it together with the SDK endpoints. */
import { ClickHouse } from '#clickhouse/client.ts';
import { systemClock } from '#common/clock.ts';
import { processConfig } from '#common/config.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { HttpServer } from '#common/http/server.ts';
import { Lifecycle } from '#common/lifecycle.ts';
import { Postgres } from '#common/postgres.ts';
import { Redis } from '#common/redis.ts';
import { createLog, createMetrics, startTelemetry, type TelemetryServer } from '#common/telemetry.ts';
import { docsRoutes } from './docs/routes.ts';
import { apiParts, readLimits } from './parts.ts';

const drainMs = 10_000;

const config = processConfig(['DATABASE_URL', 'REDIS_URL', 'CLICKHOUSE_URL', 'SECRET_KEY']);
const name = config.INSTANCE || 'api-0';
const log = createLog('api', config);
const metrics = createMetrics('api');

const db = new Postgres({ url: config.DATABASE_URL, name, onError: (err) => log.warn({ err }, 'Postgres is away') });
const redis = new Redis({ url: config.REDIS_URL, name, onError: (err) => log.debug({ err }, 'Redis is away') });
const clickhouse = new ClickHouse({ url: config.CLICKHOUSE_URL, reads: readLimits });

const api = apiParts(config, { db, redis, clickhouse }, systemClock);
const docs = { routes: docsRoutes(api.mount.routes, api.about), deps: null, guard: api.guard };

let server: HttpServer | undefined;
let telemetry: TelemetryServer | undefined;

await new Lifecycle({ log, drainMs: drainMs + 5_000 }).run([
  { name: 'postgres', stop: () => db.close() },
  { name: 'clickhouse', stop: () => clickhouse.close() },
  { name: 'redis', start: () => redis.connect(), stop: () => redis.close() },
  {
    name: 'telemetry',
    start: async () => {
      telemetry = await startTelemetry({
        host: config.METRICS_HOST,
        port: config.METRICS_PORT,
        metrics,
        checks: {
          listening: () => server !== undefined || 'no port is open',
          postgres: () => db.isReady(),
          redis: () => redis.isReady(),
          clickhouse: () => clickhouse.isReachable(),
        },
      });
    },
    stop: () => telemetry?.close(),
  },
  {
    name: 'server',
    start: async () => {
      server = await HttpServer.start({
        host: config.API_HOST,
        httpsPort: config.TLS_CERT_FILE === '' ? null : config.API_PORT,
        httpPort: config.API_HTTP_PORT === 0 ? null : config.API_HTTP_PORT,
        tlsCertFile: config.TLS_CERT_FILE,
        tlsKeyFile: config.TLS_KEY_FILE,
        trustedProxies: config.TRUSTED_PROXIES,
        corsOrigins: config.CORS_ORIGINS,
        routes: [...mountRoutes(api.mount), ...mountRoutes(docs)],
        guardUnknown: api.guard,
        onFailure: (err, where, request_id) => log.error({ err, where, request_id }, 'a request failed'),
      });
      log.info({ https: server.httpsPort, http: server.httpPort }, 'listening');
    },
    stop: () => server?.stop(drainMs),
  },
]);
