/** The API on real servers, with as many organizations and users as a test needs. */
import type { HostChecks } from '#api/apps/host-checks.ts';
import type { ImportWorker } from '#api/imports/import-worker.ts';
import type { LiveFeed } from '#api/live/live-feed.ts';
import type { Mailer } from '#api/mail/mailer.ts';
import type { SmtpOptions } from '#api/mail/smtp.ts';
import type { LinkLearner } from '#api/migration/link-learner.ts';
import { apiParts, readLimits } from '#api/parts.ts';
import type { Role } from '#api/route.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { AccessTokens } from '#common/access-token.ts';
import { systemClock } from '#common/clock.ts';
import { newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { HttpServer, type Pages } from '#common/http/server.ts';
import { newId } from '#common/ids.ts';
import { loadConfig } from '#common/process/config.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { postgresForTest, redisForTest, sharedClickhouseForTest, type TestServer } from '#testing/servers.ts';

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect responses whose shape is under test
  readonly body: any;
  readonly headers: Headers;
}

export interface Member {
  readonly user_id: string;
  readonly organization_id: string;
  readonly token: string;
  call(method: string, path: string, body?: unknown): Promise<Reply>;
}

export interface ApiForTest {
  readonly url: string;
  /** As the owner. */
  readonly databaseUrl: string;
  /** As the owner; the API itself has the rights of its role. */
  readonly db: Postgres;
  readonly redis: Redis;
  readonly redisServer: TestServer;
  readonly clickhouse: ClickHouse;
  readonly secretKey: string;
  /** Checks hosts only when a test triggers it. */
  readonly hostChecks: HostChecks;
  readonly live: LiveFeed;
  /** Works on imports only when a test triggers it. */
  readonly imports: ImportWorker;
  /** Looks up codes at old services only after `start`. */
  readonly linkLearner: LinkLearner;
  /** Sends mail only when a test triggers it. */
  readonly mailer: Mailer;
  /** The API's clock; `advance` moves it. */
  advance(ms: number): void;
  /** A user of a new organization, or of the given one. */
  member(role?: Role, organizationId?: string): Promise<Member>;
  /** Any request; `token` may be empty. */
  call(token: string, method: string, path: string, body?: unknown): Promise<Reply>;
  /** Requests that were answered 500. */
  readonly failures: unknown[];
  stop(): Promise<void>;
}

/**
 * `redisUrl`: how the API connects to Redis, if not directly. `pages`: serves paths outside /v1. `smtp`: how mail is
 * sent.
 */
export async function apiForTest(
  settings: Record<string, string> = {},
  redisUrl: (server: TestServer) => Promise<string> = async (server) => server.url,
  pages?: Pages,
  smtp: SmtpOptions = {},
): Promise<ApiForTest> {
  const [postgres, redisServer, clickhouseDatabase] = await Promise.all([
    postgresForTest(),
    redisForTest(),
    sharedClickhouseForTest(),
  ]);
  const secretKey = newSecretKey('test');
  const config = loadConfig([], {
    SECRET_KEY: secretKey,
    // No DNS server listens there: tests that claim hosts start their own.
    DNS_SERVERS: '127.0.0.1:9',
    RATE_LIMIT_GENERAL: '1000000',
    RATE_LIMIT_LINKS: '1000000',
    RATE_LIMIT_AUTH: '1000000',
    ...settings,
  });
  const db = new Postgres({ url: postgres.url, name: 'api-test' });
  const apiDb = new Postgres({ url: postgres.urlAs('signpost_api_process'), name: 'api-test' });
  const redis = new Redis({ url: await redisUrl(redisServer), name: 'api-test' });
  await redis.connect();
  let aheadMs = 0;
  const clock = () => systemClock() + aheadMs;
  const clickhouse = new ClickHouse({ url: clickhouseDatabase.url });
  const reads = new ClickHouse({ url: clickhouseDatabase.url, reads: readLimits });
  const api = apiParts(
    config,
    { db: apiDb, redis, clickhouse: reads, log: { warn: () => undefined, info: () => undefined }, smtp },
    clock,
  );
  await api.state.look();
  api.outbox.start();
  const failures: unknown[] = [];
  const server = await HttpServer.start({
    host: '127.0.0.1',
    httpsPort: null,
    httpPort: 0,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: [],
    routes: mountRoutes(api.mount),
    guardUnknown: api.guard,
    pages,
    onFailure: (error) => failures.push(error),
  });
  const url = `http://127.0.0.1:${server.httpPort}/v1`;
  const call = (token: string, method: string, path: string, body?: unknown) => request(url, token, method, path, body);
  const tokens = new AccessTokens(parseSecretKeys(config.SECRET_KEY), clock);
  return {
    url,
    databaseUrl: postgres.url,
    db,
    redis,
    redisServer,
    clickhouse,
    secretKey,
    hostChecks: api.hostChecks,
    live: api.live,
    imports: api.imports,
    linkLearner: api.linkLearner,
    mailer: api.mailer,
    advance: (ms) => {
      aheadMs += ms;
    },
    failures,
    call,
    member: async (role = 'owner', organizationId) => {
      const organization_id = organizationId ?? (await newOrganization(db));
      const user_id = await newUser(db, organization_id, role);
      const token = tokens.issue(user_id);
      return { user_id, organization_id, token, call: (method, path, body) => call(token, method, path, body) };
    },
    stop: async () => {
      await api.live.stop();
      await server.stop(2_000);
      await api.linkLearner.stop();
      await api.outbox.stop();
      await api.mailer.stop();
      await Promise.all([clickhouse.close(), reads.close(), redis.close(), apiDb.close(), db.close()]);
      await Promise.all([postgres.stop(), redisServer.stop()]);
    },
  };
}

async function newOrganization(db: Postgres): Promise<string> {
  const id = newId('org', Date.now());
  await db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [id]);
  return id;
}

async function newUser(db: Postgres, organizationId: string, role: Role): Promise<string> {
  const id = newId('usr', Date.now());
  await db.execute('INSERT INTO users (id, email) VALUES ($1, $2)', [id, `${id}@example.com`]);
  await db.execute('INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, $3)', [
    id,
    organizationId,
    role,
  ]);
  return id;
}

/** The server treats this test as a proxy that terminates TLS. */
async function request(url: string, token: string, method: string, path: string, body: unknown): Promise<Reply> {
  const response = await fetch(url + path, {
    method,
    headers: {
      'x-forwarded-proto': 'https',
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  return { status: response.status, body: isJson ? JSON.parse(text) : text, headers: response.headers };
}
