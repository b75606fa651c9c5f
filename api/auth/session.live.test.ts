import { createHmac } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { resetPassword } from '#api/admin/accounts.ts';
import { disableUser } from '#api/admin/removals.ts';
import { pairOf, type SendOptions, startTestOrigin, type TestAnswer, type TestOrigin } from '#api/testing/origin.ts';
import { systemClock } from '#common/clock.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { BrowserSessions } from './browser-sessions.ts';

let database: TestDatabase;
let redis: TestServer;
let origin: TestOrigin;
const password = 'correct horse battery staple';
const ownPage = { 'Sec-Fetch-Site': 'same-origin', 'X-Signpost-Session': '1' };
let users = 0;
let aheadMs = 0;

function advance(ms: number): void {
  aheadMs += ms;
  origin.advance(ms);
}

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  origin = await startTestOrigin(database.url, redis.url);
});
afterAll(async () => {
  await origin.close();
  await Promise.all([database.stop(), redis.stop()]);
});

async function newUser(): Promise<{ id: string; email: string }> {
  const email = `browser${users++}@example.com`;
  return { id: await origin.addUser(email, password), email };
}

const login = (email: string, more: { cookie?: string; totp_code?: string; headers?: Record<string, string> } = {}) =>
  origin.send('/session', {
    body: { email, password, ...(more.totp_code === undefined ? {} : { totp_code: more.totp_code }) },
    headers: { ...(more.headers ?? ownPage), ...(more.cookie === undefined ? {} : { Cookie: more.cookie }) },
  });

function cookieOf(answer: TestAnswer): string {
  const [, pair] = /^(__Host-signpost=[^;]+);/.exec(answer.headers.get('set-cookie') ?? '') ?? [];
  if (pair === undefined) throw new Error(`no cookie: ${JSON.stringify(answer.body)}`);
  return pair;
}

async function loggedIn(email?: string): Promise<string> {
  const answer = await login(email ?? (await newUser()).email);
  expect(answer.status).toBe(201);
  return cookieOf(answer);
}

/** A read as the dashboard sends it. */
const read = (cookie: string, options: SendOptions = {}) =>
  origin.send('/me', { ...options, headers: { 'Sec-Fetch-Site': 'same-origin', Cookie: cookie, ...options.headers } });
const logout = (cookie: string, headers: Record<string, string> = ownPage) =>
  origin.send('/session', { method: 'DELETE', headers: { ...headers, Cookie: cookie } });

test('a login sets a cookie that identifies the user and that no script or other site can read', async () => {
  const user = await newUser();
  const answer = await login(user.email);
  expect(answer).toMatchObject({ status: 201, body: { user_id: user.id } });
  const set = answer.headers.get('set-cookie') ?? '';
  expect(set).toMatch(
    /^__Host-signpost=usr_\w{26}\.[\w-]{43}\.[\w-]{43}; Max-Age=2592000; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
  );
  expect(await read(cookieOf(answer))).toMatchObject({ status: 200, body: { user: { email: user.email } } });
});

test('the database stores only a hash of the cookie’s content', async () => {
  const cookie = await loggedIn();
  const [, secret = ''] = cookie.split('.');
  const rows = JSON.stringify(
    await origin.db.query('SELECT *, encode(token_hash, $1) AS hex FROM browser_sessions', ['hex']),
  );
  expect(rows).not.toContain(secret);
  expect(rows).not.toContain(Buffer.from(secret, 'base64url').toString('hex'));
});

test.each([
  ['another site', { 'Sec-Fetch-Site': 'cross-site' }],
  ['another host of the same site', { 'Sec-Fetch-Site': 'same-site' }],
  ['the address bar', { 'Sec-Fetch-Site': 'none' }],
  ['a program', { 'Sec-Fetch-Site': '' }],
])('a cookie sent by %s does not authenticate, and no login is possible from there', async (_, headers) => {
  const user = await newUser();
  const cookie = await loggedIn(user.email);
  expect((await read(cookie, { headers })).status).toBe(401);
  expect((await login(user.email, { headers: { ...headers, 'X-Signpost-Session': '1' } })).status).toBe(403);
  expect((await logout(cookie, { ...headers, 'X-Signpost-Session': '1' })).status).toBe(403);
  expect((await read(cookie)).status).toBe(200);
});

test('a write needs the header that no form can send; a read does not', async () => {
  const user = await newUser();
  const cookie = await loggedIn(user.email);
  const headers = { 'Sec-Fetch-Site': 'same-origin', Cookie: cookie };
  const write = (more: object) => origin.send('/me/totp', { body: { password }, headers: { ...headers, ...more } });
  expect((await write({})).status).toBe(401);
  expect((await write({ 'X-Signpost-Session': '1' })).status).toBe(200);
  expect((await login(user.email, { headers: { 'Sec-Fetch-Site': 'same-origin' } })).status).toBe(403);
  expect((await logout(cookie, { 'Sec-Fetch-Site': 'same-origin' })).status).toBe(403);
  expect((await read(cookie)).status).toBe(200);
});

test('an access token takes precedence over a cookie', async () => {
  const [first, second] = [await newUser(), await newUser()];
  const cookie = await loggedIn(first.email);
  const body = { email: second.email, password };
  const { access_token: token } = pairOf(await origin.send('/auth/login', { body }));
  expect(await read(cookie, { token })).toMatchObject({ body: { user: { id: second.id } } });
  expect((await read(cookie, { token: 'garbage' })).status).toBe(401);
});

test('a tampered cookie is rejected without a query', async () => {
  const [cookie, other] = [await loggedIn(), await newUser()];
  const [user = '', secret = '', mac = ''] = cookie.slice('__Host-signpost='.length).split('.');
  const forged = createHmac('sha256', 'guess').update(`${user}.${secret}`).digest('base64url');
  const before = origin.queries();
  for (const text of [
    `${other.id}.${secret}.${mac}`,
    `${user}.${mac}.${mac}`,
    `${user}.${secret}.${forged}`,
    user,
    '',
    '%',
  ]) {
    expect((await read(`__Host-signpost=${text}`)).status).toBe(401);
  }
  expect((await read(`signpost=${user}.${secret}.${mac}`)).status).toBe(401);
  expect(origin.queries()).toBe(before);
  expect((await read(`other=1; ${cookie}; last=`)).status).toBe(200);
});

test('a logout ends the session and deletes the cookie; it can be repeated, also without a session', async () => {
  const cookie = await loggedIn();
  for (const sent of [cookie, cookie, 'other=1']) {
    const answer = await logout(sent);
    expect(answer).toMatchObject({ status: 200, body: { ended: true } });
    expect(answer.headers.get('set-cookie')).toMatch(
      /^__Host-signpost=; Max-Age=0; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
    );
  }
  expect((await read(cookie)).status).toBe(401);
});

test('a second login of the same browser ends its first session, of any user; other browsers keep theirs', async () => {
  const user = await newUser();
  const [first, elsewhere] = [await loggedIn(user.email), await loggedIn(user.email)];
  const second = cookieOf(await login((await newUser()).email, { cookie: first }));
  expect((await read(first)).status).toBe(401);
  expect((await read(second)).status).toBe(200);
  expect((await read(elsewhere)).status).toBe(200);
});

test('a refused login leaves the session of the browser as it is', async () => {
  const user = await newUser();
  const cookie = await loggedIn(user.email);
  const body = { email: user.email, password: 'wrong' };
  expect((await origin.send('/session', { body, headers: { ...ownPage, Cookie: cookie } })).status).toBe(401);
  expect((await read(cookie)).status).toBe(200);
});

test('100 parallel requests of one browser all succeed, because the cookie is never replaced', async () => {
  const cookie = await loggedIn();
  advance(HOUR_MS);
  const answers = await Promise.all(Array.from({ length: 100 }, () => read(cookie)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(answers.filter(({ headers }) => headers.has('set-cookie'))).toEqual([]);
});

test('a session ends 24 hours after its last use', async () => {
  const [used, idle] = [await loggedIn(), await loggedIn()];
  advance(DAY_MS - 10 * MINUTE_MS);
  expect((await read(used)).status).toBe(200);
  advance(11 * MINUTE_MS);
  expect((await read(idle)).status).toBe(401);
  expect((await read(used)).status).toBe(200);
});

test('a session ends 30 days after its login, however often it is used, and says so', async () => {
  const user = await newUser();
  const cookie = await loggedIn(user.email);
  const session = async () =>
    (await origin.send('/session', { headers: { 'Sec-Fetch-Site': 'same-origin', Cookie: cookie } })).body as {
      user_id: string;
      created_at: string;
      expires_at: string;
      ends_at: string;
    };
  const first = await session();
  expect(first.user_id).toBe(user.id);
  expect(Date.parse(first.expires_at) - Date.parse(first.created_at)).toBe(DAY_MS);
  expect(Date.parse(first.ends_at) - Date.parse(first.created_at)).toBe(30 * DAY_MS);
  for (let hours = 0; hours < 30 * 24 - 12; hours += 12) {
    advance(12 * HOUR_MS);
    expect((await read(cookie)).status).toBe(200);
  }
  expect((await session()).expires_at).toBe(first.ends_at);
  advance(12 * HOUR_MS);
  expect((await read(cookie)).status).toBe(401);
});

test('a session is extended at most every five minutes', async () => {
  const cookie = await loggedIn();
  const cost = async () => {
    const before = origin.queries();
    await read(cookie);
    return origin.queries() - before;
  };
  const quiet = await cost();
  advance(6 * MINUTE_MS);
  expect(await cost()).toBe(quiet + 1);
  expect(await cost()).toBe(quiet);
});

test('a new password ends every session of the account at its next request, and so does disabling the account', async () => {
  const parts = { db: origin.db, clock: systemClock };
  const [changed, disabled] = [await newUser(), await newUser()];
  const [first, second, third] = [
    await loggedIn(changed.email),
    await loggedIn(changed.email),
    await loggedIn(disabled.email),
  ];
  await resetPassword(parts, changed.email, 'another long horse battery');
  await disableUser(parts, disabled.email);
  for (const cookie of [first, second, third]) expect((await read(cookie)).status).toBe(401);
  expect(
    await origin.db.query('SELECT FROM browser_sessions WHERE user_id = ANY ($1)', [[changed.id, disabled.id]]),
  ).toEqual([]);
});

test('a login that a password reset overtakes gets no session', async () => {
  const user = await newUser();
  const [stored] = await origin.db.query<{ password_hash: string }>('SELECT password_hash FROM users WHERE id = $1', [
    user.id,
  ]);
  const sessions = new BrowserSessions(origin.db, systemClock);
  expect(await sessions.begin(user.id, `${stored?.password_hash}-older`, Buffer.alloc(32), {})).toBeNull();
});

test('a session needs the second factor of the account', async () => {
  const user = await newUser();
  const cookie = await loggedIn(user.email);
  const headers = { ...ownPage, Cookie: cookie };
  const begun = (await origin.send('/me/totp', { body: { password }, headers })).body as { secret: string };
  const totp = new TOTP({ secret: Secret.fromBase32(begun.secret) });
  const at = (steps: number) => totp.generate({ timestamp: Date.now() + aheadMs + steps * 30_000 });
  expect((await origin.send('/me/totp/confirm', { body: { totp_code: at(0) }, headers })).status).toBe(200);
  const reasonOf = ({ body }: TestAnswer) =>
    (body as { error: { details?: { reason?: string } } }).error.details?.reason;
  expect(reasonOf(await login(user.email))).toBe('totp_required');
  expect(reasonOf(await login(user.email, { totp_code: '000000' }))).toBe('totp_invalid');
  expect((await login(user.email, { totp_code: at(1) })).status).toBe(201);
});

test('logins remove expired sessions of all users, and keep at most 100 per user', async () => {
  const [gone, busy] = [await newUser(), await newUser()];
  await origin.db.execute(
    `INSERT INTO browser_sessions (id, user_id, token_hash, created_at, expires_at)
     SELECT 'old' || n, $1, decode(md5('old' || n), 'hex'), now() - interval '5 years', now() - interval '4 years' FROM generate_series(1, 50) n`,
    [gone.id],
  );
  await origin.db.execute(
    `INSERT INTO browser_sessions (id, user_id, token_hash, created_at, expires_at)
     SELECT 'busy' || n, $1, decode(md5('busy' || n), 'hex'), now() - n * interval '1 second', now() + interval '1 year' FROM generate_series(1, 120) n`,
    [busy.id],
  );
  const cookie = await loggedIn(busy.email);
  const [counts] = await origin.db.query<{ old: number; busy: number }>(
    'SELECT count(*) FILTER (WHERE user_id = $1)::int AS old, count(*) FILTER (WHERE user_id = $2)::int AS busy FROM browser_sessions',
    [gone.id, busy.id],
  );
  expect(counts).toEqual({ old: 0, busy: 100 });
  expect((await read(cookie)).status).toBe(200);
});

test('GET /session with an access token is a 404, and without anything a 401', async () => {
  const { email } = await newUser();
  const { access_token: token } = pairOf(await origin.send('/auth/login', { body: { email, password } }));
  expect((await origin.send('/session', { token })).status).toBe(404);
  expect((await origin.send('/session')).status).toBe(401);
});

type Listed = { data: { id: string; kind: string; renewed_at: string | null; is_current: boolean }[] };

test('users see their own active logins, of browsers and programs, and can end each at its next use', async () => {
  const user = await newUser();
  const [first, second] = [await loggedIn(user.email), await loggedIn(user.email)];
  const program = pairOf(await origin.send('/auth/login', { body: { email: user.email, password } }));
  const stranger = await loggedIn();
  const list = async (cookie: string) =>
    (await origin.send('/sessions', { headers: { 'Sec-Fetch-Site': 'same-origin', Cookie: cookie } })).body as Listed;
  const end = async (id: string, cookie: string) =>
    (await origin.send(`/sessions/${id}`, { method: 'DELETE', headers: { ...ownPage, Cookie: cookie } })).status;
  const { data } = await list(first);
  expect(data.map(({ kind }) => kind).sort()).toEqual(['browser', 'browser', 'token']);
  expect(data.filter(({ is_current }) => is_current)).toHaveLength(1);
  expect((await list(second)).data.find(({ is_current }) => is_current)?.id).not.toBe(
    data.find(({ is_current }) => is_current)?.id,
  );
  const token = data.find(({ kind }) => kind === 'token')?.id ?? '';
  const other = data.find(({ kind, is_current }) => kind === 'browser' && !is_current)?.id ?? '';
  advance(MINUTE_MS);
  const renewed = pairOf(await origin.send('/auth/refresh', { body: { refresh_token: program.refresh_token } }));
  expect((await list(first)).data.find(({ id }) => id === token)?.renewed_at).not.toBeNull();

  for (const id of [token, other]) expect(await end(id, stranger)).toBe(404);
  for (const id of [token, other]) expect(await end(id, first)).toBe(200);
  expect(await end(other, first)).toBe(404);
  expect((await read(second)).status).toBe(401);
  const after = await origin.send('/auth/refresh', { body: { refresh_token: renewed.refresh_token } });
  expect(after.status).toBe(401);
  expect((await list(first)).data.map(({ is_current }) => is_current)).toEqual([true]);
  expect((await list(stranger)).data).toHaveLength(1);
  advance(DAY_MS + MINUTE_MS);
  expect((await list(await loggedIn(user.email))).data).toHaveLength(1);
});
