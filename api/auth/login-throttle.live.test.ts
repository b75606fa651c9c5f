import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestOrigin, type TestOrigin } from '#api/testing/origin.ts';
import { DAY_MS } from '#common/durations.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';

let database: TestDatabase;
let redis: TestServer;
let origin: TestOrigin;
const password = 'correct horse battery staple';
const home = '192.0.2.10';
let made = 0;
let email = '';

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  origin = await startTestOrigin(database.url, redis.url, { LOGIN_FAILURES_FREE: '3' });
});
afterAll(async () => {
  await origin.close();
  await Promise.all([database.stop(), redis.stop()]);
});
beforeEach(async () => {
  email = `user${made++}@example.com`;
  await origin.addUser(email, password);
});

let addresses = 0;
const anywhere = () => `198.51.${Math.floor(addresses / 250) % 250}.${addresses++ % 250}`;
const login = (ip: string, secret = password, who = email) =>
  origin.send('/auth/login', { body: { email: who, password: secret }, ip });
const guess = (who = email) => login(anywhere(), 'wrong', who);

test('guesses from any number of addresses are delayed, each twice as long as the one before', async () => {
  for (let n = 0; n < 4; n++) expect((await guess()).status).toBe(401);
  for (const seconds of [1, 2, 4, 8]) {
    const refused = await guess();
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, String(seconds)]);
    expect(refused.body).toMatchObject({ error: { code: 'RATE_LIMITED' } });
    origin.advance(seconds * 1_000);
    expect((await guess()).status).toBe(401);
  }
});

test('the longest delay is a quarter of an hour, and a day without guesses ends it', async () => {
  for (let n = 0; n < 4; n++) await guess();
  for (let n = 0; n < 12; n++) {
    origin.advance(900_000);
    expect((await guess()).status).toBe(401);
  }
  const refused = await guess();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '900']);
  origin.advance(900_000);
});

test('of a hundred concurrent guesses, only the free attempts are compared', async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, () => guess()));
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(4);
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(96);
});

test('the owner logs in from a known address while strangers guess, and is known at a new one after a login there', async () => {
  expect((await login(home)).status).toBe(200);
  for (let n = 0; n < 4; n++) await guess();
  expect((await guess()).status).toBe(429);
  expect((await login(home, 'mistyped')).status).toBe(401);
  expect((await login(home)).status).toBe(200);
  expect((await login('192.0.2.77')).status).toBe(429);
  origin.advance(10_000);
  expect((await login('192.0.2.77')).status).toBe(200);
  expect((await guess()).status).toBe(401);
  expect((await guess()).status).toBe(429);
  expect((await login('192.0.2.77')).status).toBe(200);
});

test('a known address is delayed only for its own failures', async () => {
  expect((await login(home)).status).toBe(200);
  for (let n = 0; n < 4; n++) expect((await login(home, 'wrong')).status).toBe(401);
  expect((await login(home)).status).toBe(429);
  expect((await login('192.0.2.88')).status).toBe(200);
});

test('all of an IPv6 /48 is one known network', async () => {
  expect((await login('2001:db8:77:1::1')).status).toBe(200);
  for (let n = 0; n < 4; n++) await guess();
  expect((await login('2001:db8:78:1::1')).status).toBe(429);
  expect((await login('2001:db8:77:2::9')).status).toBe(200);
});

test('an account that does not exist is delayed in the same way, and guesses at one account do not affect another', async () => {
  const nobody = 'nobody@example.com';
  for (let n = 0; n < 4; n++) expect((await guess(nobody)).status).toBe(401);
  expect((await guess(nobody)).status).toBe(429);
  expect((await login(anywhere())).status).toBe(200);
});

test('an e-mail address is one account however it is typed', async () => {
  for (let n = 0; n < 4; n++) await guess(n % 2 === 0 ? email.toUpperCase() : ` ${email} `);
  expect((await guess()).status).toBe(429);
});

test('the stored data is bounded and expires, and names neither account nor address', async () => {
  for (let n = 0; n < 40; n++) expect((await login(`203.0.113.${n}`)).status).toBe(200);
  const keys = (await origin.redis.commands.keys('login:*')).sort();
  expect(keys.length).toBeGreaterThan(0);
  for (const key of keys) {
    expect(await origin.redis.commands.pttl(key)).toBeGreaterThan(0);
    expect(key).not.toMatch(/@|\d\.\d/);
    if (key.startsWith('login:known:')) expect(await origin.redis.commands.zcard(key)).toBeLessThanOrEqual(16);
  }
  origin.advance(91 * DAY_MS);
  for (let n = 0; n < 4; n++) await guess();
  expect((await login('203.0.113.39')).status).toBe(429);
});
