import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccessTokens } from '#common/access-token.ts';
import { newApiKey, newKey } from '#common/api-key.ts';
import { systemClock } from '#common/clock.ts';
import { CountedAddresses } from '#common/counted-addresses.ts';
import type { GuardedRoute, Incoming } from '#common/http/mount.ts';
import { limitAddress } from '#common/http/peer.ts';
import { emptyBody } from '#common/http/raw-body.ts';
import { newId } from '#common/ids.ts';
import { loadConfig } from '#common/process/config.ts';
import { configuredLimits, limitScript, RateLimiter } from '#common/rate-limit.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import {
  ownPostgresForTest,
  postgresForTest,
  redisForTest,
  type TestDatabase,
  type TestServer,
} from '#testing/servers.ts';
import { BrowserSessions } from './auth/browser-sessions.ts';
import { SessionCookies } from './auth/session-cookie.ts';
import { apiGuard } from './guard.ts';
import { hashOfServerKey } from './keys/server-keys.ts';
import { startTestOrigin, type TestOrigin } from './testing/origin.ts';

let database: TestDatabase;
let redis: TestServer;
let origin: TestOrigin;
let owner: string;

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  // The default limits.
  origin = await startTestOrigin(database.url, redis.url, { RATE_LIMIT_AUTH: '', RATE_LIMIT_GENERAL: '' });
  owner = await origin.addUser('owner@example.com', 'correct horse battery staple');
});

afterAll(async () => {
  await origin.close();
  await Promise.all([database.stop(), redis.stop()]);
});

/** A user without any requests yet. */
async function freshUser(): Promise<string> {
  const id = newId('usr', Date.now());
  await origin.db.execute('INSERT INTO users (id, email) VALUES ($1, $2)', [id, `${id}@example.com`]);
  return id;
}

const wrongLogin = (ip: string) =>
  origin.send('/auth/login', { body: { email: 'owner@example.com', password: 'wrong' }, ip });

test('of 50 concurrent logins from one address exactly 5 reach the password check', async () => {
  const before = origin.queries();
  const answers = await Promise.all(Array.from({ length: 50 }, () => wrongLogin('203.0.113.1')));
  expect(answers.filter((answer) => answer.status === 401)).toHaveLength(5);
  expect(answers.filter((answer) => answer.status === 429)).toHaveLength(45);
  expect(origin.queries() - before).toBe(5);
});

test('the headers count down to the limit and give one end of the window; a 429 says when to retry', async () => {
  const remaining: (string | null)[] = [];
  const resets = new Set<string | null>();
  for (let request = 0; request < 6; request++) {
    const { headers } = await wrongLogin('203.0.113.2');
    expect(headers.get('x-ratelimit-limit')).toBe('5');
    remaining.push(headers.get('x-ratelimit-remaining'));
    resets.add(headers.get('x-ratelimit-reset'));
  }
  expect(remaining).toEqual(['4', '3', '2', '1', '0', '0']);
  expect(resets.size).toBe(1);
  const [reset] = [...resets];
  const now = Date.now() / 1000;
  expect(Number(reset)).toBeGreaterThan(now);
  expect(Number(reset)).toBeLessThanOrEqual(now + 61);
  const refused = await wrongLogin('203.0.113.2');
  expect(refused.status).toBe(429);
  const retryAfter = Number(refused.headers.get('retry-after'));
  expect(retryAfter).toBeGreaterThanOrEqual(1);
  expect(retryAfter).toBeLessThanOrEqual(60);
});

test('one IPv6 /64 counts as one address, the next /64 as another', async () => {
  for (let host = 1; host <= 5; host++) expect((await wrongLogin(`2001:db8:0:1::${host}`)).status).toBe(401);
  expect((await wrongLogin('2001:db8:0:1:ffff::1')).status).toBe(429);
  expect((await wrongLogin('2001:db8:0:2::1')).status).toBe(401);
});

test('a /56 has four times the logins of a /64 and a /48 sixteen times, however they are distributed', async () => {
  // A logout without a token costs no password check.
  const request = (ip: string) => origin.send('/auth/logout', { body: {}, ip });
  let passed = 0;
  for (let site = 0; site < 5; site++) {
    for (let net = 0; net < 8; net++) {
      const ip = `2001:db8:ff:${((site << 8) | net).toString(16)}::1`;
      for (let n = 0; n < 5; n++) if ((await request(ip)).status === 400) passed++;
    }
    expect(passed).toBe(Math.min(80, 20 * (site + 1)));
  }
  expect((await request('2001:db8:fe::1')).status).toBe(400);
});

test('rejected requests of one /64 do not count against its neighbors', async () => {
  for (let n = 0; n < 100; n++) await origin.send('/auth/logout', { body: {}, ip: '2001:db8:aa:1::1' });
  expect((await wrongLogin('2001:db8:aa:2::1')).status).toBe(401);
});

test('all authentication endpoints share one rate-limit class, all others another', async () => {
  const ip = '203.0.113.3';
  await origin.send('/auth/login', { body: {}, ip });
  await origin.send('/auth/refresh', { body: {}, ip });
  await origin.send('/auth/logout', { body: {}, ip });
  await origin.send('/auth/oauth/google/start', { body: {}, ip });
  await origin.send('/auth/oauth/google/callback', { body: {}, ip });
  expect((await wrongLogin(ip)).status).toBe(429);
  const me = await origin.send('/me', { ip, token: origin.tokens.issue(await freshUser()) });
  expect([me.status, me.headers.get('x-ratelimit-limit'), me.headers.get('x-ratelimit-remaining')]).toEqual([
    200,
    '100',
    '99',
  ]);
});

test('an unknown path below /auth counts in the authentication class', async () => {
  const ip = '203.0.113.6';
  for (const path of ['/auth/login', '/auth/nope', '/auth/oauth/google/start']) {
    const answer = await origin.send(path, { ip });
    expect([answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([404, '5']);
  }
  for (const body of [{}, { zzz: 1 }]) {
    expect((await origin.send('/auth/oauth/nobody/callback', { ip, body })).status).toBe(404);
  }
  expect((await wrongLogin(ip)).status).toBe(429);
});

test('each user behind one address has their own limit, which counts requests from every address', async () => {
  const [one, other] = [origin.tokens.issue(await freshUser()), origin.tokens.issue(await freshUser())];
  const statuses = async (token: string, ip: (at: number) => string) =>
    (await Promise.all(Array.from({ length: 100 }, (_, at) => origin.send('/me', { ip: ip(at), token })))).map(
      ({ status }) => status,
    );
  expect(new Set(await statuses(one, () => '203.0.113.20'))).toEqual(new Set([200]));
  expect(new Set(await statuses(other, () => '203.0.113.20'))).toEqual(new Set([200]));
  const before = origin.queries();
  expect(new Set(await statuses(one, (at) => `203.0.113.${21 + at}`))).toEqual(new Set([429]));
  expect(origin.queries() - before).toBe(0);
  // The address itself has used none of its limit.
  const anonymous = await origin.send('/me', { ip: '203.0.113.20' });
  expect([anonymous.status, anonymous.headers.get('x-ratelimit-limit')]).toEqual([401, '100']);
});

test('an unknown path counts too, and a rejected request needs no query in Postgres', async () => {
  const ip = '203.0.113.4';
  const before = origin.queries();
  for (let request = 0; request < 100; request++) expect((await origin.send('/nothing', { ip })).status).toBe(404);
  expect((await origin.send('/nothing', { ip })).status).toBe(429);
  expect((await origin.send('/me', { ip })).status).toBe(429);
  expect((await origin.send('/me', { ip, token: 'garbage' })).status).toBe(429);
  const other = '203.0.113.5';
  expect((await origin.send('/me', { ip: other })).status).toBe(401);
  expect((await origin.send('/me', { ip: other, token: 'garbage' })).status).toBe(401);
  // Malformed text is an invalid key; a well-formed key is in the wrong place.
  expect((await origin.send('/me', { ip: other, token: 'lk_junk' })).status).toBe(401);
  expect((await origin.send('/me', { ip: other, headers: { 'X-API-Key': 'x' } })).status).toBe(401);
  expect((await origin.send('/me', { ip: other, token: newApiKey() })).status).toBe(403);
  expect((await origin.send('/me', { ip: other, headers: { 'X-API-Key': newApiKey() } })).status).toBe(403);
  expect(origin.queries() - before).toBe(0);
});

test('without Redis, logins get a 500 with Retry-After and other requests are served; both recover', async () => {
  const own = await redisForTest();
  const fragile = await startTestOrigin(database.url, own.url);
  try {
    const login = () => fragile.send('/auth/login', { body: { email: 'owner@example.com', password: 'wrong' } });
    expect((await login()).status).toBe(401);
    await own.kill('SIGKILL');
    const refused = await login();
    expect(refused).toMatchObject({ status: 500, body: { error: { code: 'INTERNAL_ERROR' } } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    const me = await fragile.send('/me', { token: fragile.tokens.issue(owner) });
    expect([me.status, me.headers.get('x-ratelimit-limit')]).toEqual([200, '100000']);
    await own.restart();
    await expect.poll(async () => (await login()).status, { timeout: 10_000 }).toBe(401);
  } finally {
    await fragile.close();
    await own.stop();
  }
});

test('without Postgres a login is a 500 with Retry-After', { tags: ['slow'] }, async () => {
  const server = await ownPostgresForTest();
  const fragile = await startTestOrigin(server.url, redis.url);
  try {
    await server.kill('SIGKILL');
    const refused = await fragile.send('/auth/login', { body: { email: 'owner@example.com', password: 'x' } });
    const message = 'A part of the service is unavailable. Try again later.';
    expect(refused).toMatchObject({ status: 500, body: { error: { code: 'INTERNAL_ERROR', message } } });
    expect(refused.headers.get('retry-after')).toBe('5');
  } finally {
    await fragile.close();
    await server.stop();
  }
});

/** The guard alone, with its own dependencies. */
async function guardOn(db: Postgres) {
  const client = new Redis({ url: redis.url, name: 'guard-test', onError: () => undefined });
  await client.connect();
  const secrets = [{ id: '1', key: Buffer.alloc(32, 7) }];
  const tokens = new AccessTokens(secrets);
  const addresses = new CountedAddresses(secrets);
  const config = loadConfig([], { RATE_LIMIT_LINKS: '3', RATE_LIMIT_GENERAL: '7' });
  const limiter = new RateLimiter(client.script(limitScript), configuredLimits(config), addresses);
  const clock = systemClock;
  const sessions = { cookies: new SessionCookies(secrets), browserSessions: new BrowserSessions(db, clock) };
  return { guard: apiGuard({ db, limiter, tokens, clock, ...sessions }), tokens, close: () => client.close() };
}

const createLink: GuardedRoute = {
  method: 'POST',
  path: '/links',
  caller: 'user',
  scope: 'links:write',
  limit: 'links',
};
const incoming = (ip: string, token?: string): Incoming => ({
  id: 'req',
  ip,
  receivedMs: Date.now(),
  header: (name) => (name === 'authorization' && token !== undefined ? `Bearer ${token}` : ''),
  queryText: '',
  readBody: () => Promise.resolve(emptyBody),
});

test('link creation counts per user wherever the requests come from, and per address without a user', async () => {
  const { guard, tokens, close } = await guardOn(origin.db);
  try {
    const token = tokens.issue(owner);
    for (let at = 0; at < 3; at++) {
      const passed = await guard(createLink, incoming(`198.51.100.${at}`, token));
      expect(passed).toMatchObject({
        caller: { kind: 'user', user_id: owner, memberships: [] },
        quota: { limit: 3, remaining: 2 - at },
      });
    }
    expect(await guard(createLink, incoming('198.51.100.9', token))).toMatchObject({
      rejection: { code: 'RATE_LIMITED' },
    });
    for (let at = 0; at < 7; at++) {
      const refused = await guard(createLink, incoming('198.51.100.10', 'garbage'));
      expect(refused).toMatchObject({ rejection: { code: 'UNAUTHORIZED' }, quota: { limit: 7 } });
    }
    expect(await guard(createLink, incoming('198.51.100.10', 'garbage'))).toMatchObject({
      rejection: { code: 'RATE_LIMITED' },
    });
  } finally {
    await close();
  }
});

const readLinks: GuardedRoute = {
  method: 'GET',
  path: '/links',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
};

test('requests with a server key count against the key, even if their address has no requests left, and a deleted key gets a 401', async () => {
  const { guard, close } = await guardOn(origin.db);
  try {
    const [key, organization, id] = [newKey('sk_'), newId('org', Date.now()), newId('key', Date.now())];
    await origin.db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [organization]);
    await origin.db.execute(
      `INSERT INTO server_keys (id, organization_id, name, key_hash, key_preview, scopes, created_at)
       VALUES ($1, $2, 'k', $3, '', '{links:read}', now())`,
      [id, organization, hashOfServerKey(key)],
    );
    const request = (ip: string, token: string) => guard(readLinks, incoming(ip, token));
    const address = `2001:db8:${Math.floor(Math.random() * 60_000).toString(16)}::1`;
    expect(await request(address, key)).toMatchObject({ quota: { limit: 7, remaining: 6 } });
    for (let at = 0; at < 7; at++)
      expect(await request(address, newKey('sk_'))).toMatchObject({ rejection: { code: 'UNAUTHORIZED' } });
    expect(await request(address, newKey('sk_'))).toMatchObject({ rejection: { code: 'RATE_LIMITED' } });
    for (let at = 0; at < 5; at++)
      expect(await request(address, key)).toMatchObject({ caller: { user_id: id }, quota: { remaining: 5 - at } });
    await origin.db.execute('DELETE FROM server_keys WHERE id = $1', [id]);
    expect(await request(address, key)).toMatchObject({ rejection: { code: 'UNAUTHORIZED' } });
    expect(await request(address, key)).toMatchObject({ rejection: { code: 'RATE_LIMITED' } });
  } finally {
    await close();
  }
});

test('link creation with a server key counts against the key; with an unknown key it counts against the address, without a query once the address has no requests left', async () => {
  const { guard, close } = await guardOn(origin.db);
  try {
    const [key, organization] = [newKey('sk_'), newId('org', Date.now())];
    await origin.db.execute('INSERT INTO organizations (id, name) VALUES ($1, $1)', [organization]);
    await origin.db.execute(
      `INSERT INTO server_keys (id, organization_id, name, key_hash, key_preview, scopes, created_at)
       VALUES ($1, $2, 'k', $3, '', '{links:write}', now())`,
      [newId('key', Date.now()), organization, hashOfServerKey(key)],
    );
    for (let at = 0; at < 3; at++) {
      expect(await guard(createLink, incoming(`198.51.100.4${at}`, key))).toMatchObject({
        caller: { memberships: [{ organization_id: organization, role: 'member' }] },
        quota: { limit: 3, remaining: 2 - at },
      });
    }
    expect(await guard(createLink, incoming('198.51.100.49', key))).toMatchObject({
      rejection: { code: 'RATE_LIMITED' },
    });
    const unknown = () => guard(createLink, incoming('198.51.100.50', newKey('sk_')));
    for (let at = 0; at < 7; at++) {
      expect(await unknown()).toMatchObject({ rejection: { code: 'UNAUTHORIZED' }, quota: { limit: 7 } });
    }
    for (let at = 0; at < 2; at++) expect(await unknown()).toMatchObject({ rejection: { code: 'RATE_LIMITED' } });
  } finally {
    await close();
  }
});

test('a token of a missing user gets a 401; without Postgres it is a 500 with Retry-After', async () => {
  const server = await ownPostgresForTest();
  const db = new Postgres({ url: server.url, name: 'guard-test', onError: () => undefined });
  const { guard, tokens, close } = await guardOn(origin.db);
  const offline = await guardOn(db);
  try {
    const stranger = tokens.issue(newId('usr', Date.now()));
    expect(await guard(createLink, incoming('198.51.100.30', stranger))).toMatchObject({
      rejection: { code: 'UNAUTHORIZED' },
    });
    await server.kill('SIGKILL');
    expect(
      await offline.guard(createLink, incoming('198.51.100.30', tokens.issue(newId('usr', Date.now())))),
    ).toMatchObject({
      rejection: { code: 'INTERNAL_ERROR', retryAfterSeconds: 5 },
      quota: { limit: 3 },
    });
  } finally {
    await Promise.all([close(), offline.close(), db.close()]);
    await server.stop();
  }
});

test('an IPv4 address is counted individually and an IPv6 address by its /64', () => {
  expect(limitAddress('203.0.113.9')).toBe('203.0.113.9');
  expect(limitAddress('2001:db8::1')).toBe('2001:db8:0:0::/64');
  expect(limitAddress('2001:db8::1')).toBe(limitAddress('2001:db8::ffff:1'));
});
