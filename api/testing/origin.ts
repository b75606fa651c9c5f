/** For tests: the authentication endpoints behind the real HTTP server, guard and stores, without TLS on loopback. */
import { randomBytes } from 'node:crypto';
import { noteOf } from '#api/audit-trail.ts';
import { authParts } from '#api/auth/parts.ts';
import { hashPassword } from '#api/auth/password.ts';
import { authRoutes, sessionRoutes } from '#api/auth/routes.ts';
import { apiGuard } from '#api/guard.ts';
import { meRoutes } from '#api/me/read.ts';
import { isOutage } from '#api/parts.ts';
import { AccessTokens } from '#common/access-token.ts';
import { systemClock } from '#common/clock.ts';
import { CountedAddresses } from '#common/counted-addresses.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import { mountRoutes } from '#common/http/mount.ts';
import { HttpServer } from '#common/http/server.ts';
import { newId } from '#common/ids.ts';
import { loadConfig } from '#common/process/config.ts';
import { configuredLimits, limitScript, RateLimiter } from '#common/rate-limit.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { urlAsRole } from '#testing/roles.ts';

export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

export interface TestOrigin {
  readonly db: Postgres;
  readonly redis: Redis;
  readonly tokens: AccessTokens;
  /** Queries that the endpoints and the guard have run. */
  readonly queries: () => number;
  /** Moves the clock of tokens, sessions and attempts, not of limits. */
  readonly advance: (ms: number) => void;
  /** Sends a request from an address; a body makes it a POST. */
  readonly send: (path: string, options?: SendOptions) => Promise<TestAnswer>;
  readonly addUser: (email: string, password: string | null) => Promise<string>;
  readonly close: () => Promise<void>;
}

export interface SendOptions {
  readonly body?: object;
  /** The client's address, as a trusted proxy reports it. */
  readonly ip?: string;
  readonly token?: string;
  readonly headers?: Record<string, string>;
  /** Instead of GET, or POST with a body. */
  readonly method?: string;
}

export async function startTestOrigin(
  databaseUrl: string,
  redisUrl: string,
  settings: Record<string, string> = {},
): Promise<TestOrigin> {
  const secret = `test:${randomBytes(32).toString('base64')}`;
  const config = loadConfig([], {
    RATE_LIMIT_AUTH: '100000',
    RATE_LIMIT_GENERAL: '100000',
    LOGIN_FAILURES_FREE: '100000',
    SECRET_KEY: secret,
    ...settings,
  });
  const db = new Postgres({ url: databaseUrl, name: 'test-origin' });
  let queries = 0;
  const url = urlAsRole(databaseUrl, 'signpost_api_process');
  const counted = new Postgres({ url, name: 'test-origin-counted', connectionsMax: 4 });
  const { query, execute, transaction } = counted;
  Object.assign(counted, {
    query: (...args: Parameters<typeof query>) => {
      queries++;
      return query(...args);
    },
    execute: (...args: Parameters<typeof execute>) => {
      queries++;
      return execute(...args);
    },
    transaction: (...args: Parameters<typeof transaction>) => {
      queries++;
      return transaction.apply(counted, args);
    },
  });
  const redis = new Redis({ url: redisUrl, name: 'test-origin', onError: () => undefined });
  await redis.connect();
  let aheadMs = 0;
  const clock = () => systemClock() + aheadMs;
  const secrets = parseSecretKeys(config.SECRET_KEY);
  const tokens = new AccessTokens(secrets, clock);
  const limiter = new RateLimiter(redis.script(limitScript), configuredLimits(config), new CountedAddresses(secrets));
  const auth = authParts({ db: counted, redis, secrets, tokens, config, clock });
  const guard = apiGuard({ ...auth, db: counted, limiter, tokens, clock });
  const deps = { auth, db: counted, clock };
  const server = await HttpServer.start({
    host: '127.0.0.1',
    httpsPort: null,
    httpPort: 0,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: [],
    routes: mountRoutes({
      routes: [...authRoutes, ...sessionRoutes, ...meRoutes],
      deps,
      guard,
      isOutage,
      trail: noteOf,
    }),
    guardUnknown: guard,
    onFailure: (error, where) => console.error(where, error),
  });
  return {
    db,
    redis,
    tokens,
    queries: () => queries,
    advance: (ms) => {
      aheadMs += ms;
    },
    send: (path, options = {}) => send(`http://127.0.0.1:${server.httpPort}/v1${path}`, options),
    addUser: async (email, password) => {
      const id = newId('usr', Date.now());
      const hash = password === null ? null : await hashPassword(password);
      await db.query('INSERT INTO users (id, email, password_hash) VALUES ($1, $2, $3)', [id, email, hash]);
      return id;
    },
    close: async () => {
      await server.stop(1_000);
      await Promise.all([redis.close(), db.close(), counted.close()]);
    },
  };
}

async function send(url: string, { body, ip, token, headers, method }: SendOptions): Promise<TestAnswer> {
  const answer = await fetch(url, {
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    ...(method === undefined ? {} : { method }),
    headers: {
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-For': ip ?? '192.0.2.1',
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...headers,
    },
  });
  return { status: answer.status, headers: answer.headers, body: await answer.json() };
}

/** The token pair of an answer. @throws if it has none. */
export function pairOf(answer: TestAnswer): { access_token: string; refresh_token: string } {
  const { body } = answer;
  if (typeof body !== 'object' || body === null) throw new Error('the answer has no body');
  if (!('access_token' in body) || typeof body.access_token !== 'string') throw new Error(JSON.stringify(body));
  if (!('refresh_token' in body) || typeof body.refresh_token !== 'string') throw new Error(JSON.stringify(body));
  return { access_token: body.access_token, refresh_token: body.refresh_token };
}
