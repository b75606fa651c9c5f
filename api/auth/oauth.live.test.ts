import { createHash } from 'node:crypto';
import { OAuth2Server } from 'oauth2-mock-server';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { disableUser } from '#api/admin/removals.ts';
import { type GithubFixture, githubSettings, startGithubFixture } from '#api/testing/github.ts';
import { pairOf, startTestOrigin, type TestOrigin } from '#api/testing/origin.ts';
import { systemClock } from '#common/clock.ts';
import { loadConfig } from '#common/process/config.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { oauthProviders } from './oauth-provider.ts';

const redirectUri = 'https://dashboard.example.com/callback';
const otherRedirectUri = 'https://other.example.com/back';
const providers = ['google', 'github'] as const;
type Name = (typeof providers)[number];

let database: TestDatabase;
let redis: TestServer;
let origin: TestOrigin;
let signup: TestOrigin;
let google: OAuth2Server;
let github: GithubFixture;
let user: string;
/** Google's claims about the next user to log in. */
let claims: Record<string, unknown>;

beforeAll(async () => {
  [database, redis, github] = await Promise.all([postgresForTest(), redisForTest(), startGithubFixture()]);
  google = new OAuth2Server();
  await google.issuer.keys.generate('RS256');
  await google.start(0, '127.0.0.1');
  google.service.on('beforeTokenSigning', (token: { payload: Record<string, unknown> }) => {
    Object.assign(token.payload, claims);
  });
  const settings = {
    ...githubSettings(github),
    OAUTH_GOOGLE_CLIENT_ID: 'google-client',
    OAUTH_GOOGLE_CLIENT_SECRET: 'google-secret',
    OAUTH_GOOGLE_ISSUER: google.issuer.url ?? '',
    OAUTH_REDIRECT_URIS: `${redirectUri},${otherRedirectUri}`,
    API_PUBLIC_URL: 'https://own.example/v1',
  };
  origin = await startTestOrigin(database.url, redis.url, settings);
  signup = await startTestOrigin(database.url, redis.url, { ...settings, OAUTH_SIGNUP: 'true' });
  user = await origin.addUser('ada@example.com', null);
});

afterAll(async () => {
  await Promise.all([origin.close(), signup.close()]);
  await Promise.all([google.stop(), github.stop(), database.stop(), redis.stop()]);
});

beforeEach(() => saysWho({ email: 'ada@example.com', isVerified: true }));

/** The providers' user ids, by the address with which a person was first seen. */
const numbers = new Map<string, number>();

/**
 * Makes both providers return the same data for the next user to log in. Each address is another person, unless
 * `person` is given.
 */
function saysWho(who: { email: string; isVerified: boolean; person?: string; name?: string }): void {
  const person = (who.person ?? who.email).toLowerCase();
  const id = numbers.get(person) ?? numbers.size + 1;
  numbers.set(person, id);
  claims = { sub: `google-${id}`, email: who.email, email_verified: who.isVerified, name: who.name ?? 'Ada' };
  github.emails = [{ email: who.email, verified: who.isVerified, primary: true }];
  github.user = { id, login: 'ada', name: who.name ?? 'Ada' };
  github.failure = 200;
}

const start = (at: TestOrigin, name: Name, body: object = {}) => at.send(`/auth/oauth/${name}/start`, { body });
const callback = (at: TestOrigin, name: Name, body: object) => at.send(`/auth/oauth/${name}/callback`, { body });

/** Starts a login as a browser does: follows the URL and reads code and state from the redirect. */
async function authorized(
  at: TestOrigin,
  name: Name,
  body: object = {},
): Promise<{ code: string; state: string; back: URL }> {
  const started = await start(at, name, body);
  expect(started).toMatchObject({ status: 200, body: { expires_in: 600 } });
  const { authorization_url } = started.body as { authorization_url: string };
  const redirect = await fetch(authorization_url, { redirect: 'manual' });
  const back = new URL(redirect.headers.get('location') ?? '');
  return { code: back.searchParams.get('code') ?? '', state: back.searchParams.get('state') ?? '', back };
}

async function login(at: TestOrigin, name: Name) {
  const { code, state } = await authorized(at, name);
  return callback(at, name, { code, state });
}

test.each(providers)('%s: a verified e-mail address logs in to its account', async (name) => {
  const answer = await login(origin, name);
  expect(answer.status).toBe(200);
  const me = await origin.send('/me', { token: pairOf(answer).access_token });
  expect(me.body).toMatchObject({ user: { id: user, email: 'ada@example.com' } });
});

test.each(providers)(
  '%s: the PKCE verifier and the secret stay on the server; the URL has the challenge',
  async (name) => {
    const { body } = await start(origin, name);
    const url = new URL((body as { authorization_url: string }).authorization_url);
    expect(url.searchParams.get('code_challenge_method')).toBe('S256');
    expect(url.searchParams.get('state')).toBe((body as { state: string }).state);
    const [row] = await origin.db.query<{ verifier: string; line: string }>(
      'SELECT verifier, s::text AS line FROM oauth_states s ORDER BY created_at DESC LIMIT 1',
    );
    expect(JSON.stringify(body)).not.toContain(row?.verifier);
    expect(row?.line).not.toContain((body as { state: string }).state);
  },
);

test.each(providers)('%s: a state is valid once, even for ten callbacks at the same time', async (name) => {
  const { code, state } = await authorized(origin, name);
  const answers = await Promise.all(Array.from({ length: 10 }, () => callback(origin, name, { code, state })));
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array.from({ length: 9 }, () => 401)]);
});

test.each(providers)('%s: a code is rejected without the state it was issued for', async (name) => {
  const stolen = await authorized(origin, name);
  const own = await authorized(origin, name);
  // The code of one login with the state of another: PKCE does not match.
  expect((await callback(origin, name, { code: stolen.code, state: own.state })).status).toBe(401);
  expect((await callback(origin, name, { code: stolen.code, state: 'made-up' })).status).toBe(401);
  expect((await callback(origin, name, { code: 'made-up', state: stolen.state })).status).toBe(401);
});

test('a state belongs to one provider, and sending it to the other does not use it up', async () => {
  const { code, state } = await authorized(origin, 'google');
  expect((await callback(origin, 'github', { code, state })).status).toBe(401);
  expect((await callback(origin, 'google', { code, state })).status).toBe(200);
});

test.each(providers)('%s: a state expires after 10 minutes, and later logins delete it', async (name) => {
  const at = await startTestOrigin(database.url, redis.url, {
    ...githubSettings(github),
    OAUTH_GOOGLE_CLIENT_ID: 'google-client',
    OAUTH_GOOGLE_CLIENT_SECRET: 'google-secret',
    OAUTH_GOOGLE_ISSUER: google.issuer.url ?? '',
    OAUTH_REDIRECT_URIS: redirectUri,
  });
  try {
    await at.db.query('DELETE FROM oauth_states');
    const { code, state } = await authorized(at, name);
    at.advance(600_001);
    expect((await callback(at, name, { code, state })).status).toBe(401);
    await start(at, name);
    at.advance(600_001);
    await start(at, name);
    const count = async () => (await at.db.query<{ n: number }>('SELECT count(*) AS n FROM oauth_states'))[0]?.n;
    // An attempt is deleted when it has expired by the clock of Postgres too.
    expect(await count()).toBe(2);
    await at.db.query(`UPDATE oauth_states SET expires_at = now() - interval '1 hour'`);
    await start(at, name);
    expect(await count()).toBe(1);
  } finally {
    await at.close();
  }
});

test.each(providers)('%s: an unverified address does not allow a login', async (name) => {
  saysWho({ email: 'ada@example.com', isVerified: false });
  expect((await login(origin, name)).status).toBe(401);
  expect((await login(signup, name)).status).toBe(401);
});

test.each(providers)(
  '%s: a login without an account gets 403; with sign-up on, the account and its organization are created',
  async (name) => {
    const email = `new-${name}@example.com`;
    saysWho({ email: email.toUpperCase(), isVerified: true });
    expect(await login(origin, name)).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } });
    const token = pairOf(await login(signup, name)).access_token;
    const me = await signup.send('/me', { token });
    expect(me.body).toMatchObject({ user: { email, name: 'Ada' }, organizations: [{ name: 'Ada', role: 'owner' }] });
    const again = await origin.send('/me', { token: pairOf(await login(origin, name)).access_token });
    expect(again.body).toEqual(me.body);
  },
);

test.each(providers)('%s: a long name is cut between two characters', async (name) => {
  const email = `long-${name}@example.com`;
  saysWho({ email, isVerified: true, name: `x${'😀'.repeat(120)}` });
  const me = await signup.send('/me', { token: pairOf(await login(signup, name)).access_token });
  const cut = `x${'😀'.repeat(99)}`;
  expect(me.body).toMatchObject({ user: { name: cut }, organizations: [{ name: cut }] });
});

test.each(providers)('%s: a disabled account gets 403, and sign-up creates no second one', async (name) => {
  const email = `disabled-${name}@example.com`;
  const id = await origin.addUser(email, null);
  saysWho({ email, isVerified: true });
  const { access_token } = pairOf(await login(origin, name));
  expect(await disableUser({ db: origin.db, clock: systemClock }, email)).toMatchObject({ kind: 'disabled' });
  expect((await origin.send('/me', { token: access_token })).status).toBe(401);
  expect((await login(origin, name)).status).toBe(403);
  expect((await login(signup, name)).status).toBe(403);
  expect(await origin.db.query('SELECT id FROM users WHERE email = $1', [email])).toEqual([{ id }]);
});

test.each(providers)('%s: a changed e-mail address keeps the account', async (name) => {
  const email = `before-${name}@example.com`;
  const id = await origin.addUser(email, null);
  saysWho({ email, isVerified: true });
  expect((await login(origin, name)).status).toBe(200);
  saysWho({ email: `after-${name}@example.org`, isVerified: true, person: email });
  const me = await origin.send('/me', { token: pairOf(await login(origin, name)).access_token });
  expect(me.body).toMatchObject({ user: { id, email } });
});

test.each(providers)('%s: a reassigned mailbox does not inherit the account, even if sign-up is on', async (name) => {
  const email = `mailbox-${name}@example.com`;
  const id = await origin.addUser(email, null);
  saysWho({ email, isVerified: true });
  expect((await login(origin, name)).status).toBe(200);
  saysWho({ email, isVerified: true, person: `successor-${name}` });
  expect((await login(origin, name)).status).toBe(403);
  expect((await login(signup, name)).status).toBe(403);
  expect(await origin.db.query('SELECT id FROM users WHERE email = $1', [email])).toEqual([{ id }]);
});

test('another provider joins an account by its address while the first one still confirms it, and not later', async () => {
  const [early, late] = ['early@example.com', 'late@example.com'];
  for (const email of [early, late]) {
    await origin.addUser(email, null);
    saysWho({ email, isVerified: true });
    expect((await login(origin, 'google')).status).toBe(200);
  }
  saysWho({ email: early, isVerified: true });
  expect((await login(origin, 'github')).status).toBe(200);
  await origin.db.execute(`UPDATE user_identities SET last_login_at = now() - interval '31 days' WHERE email = $1`, [
    late,
  ]);
  saysWho({ email: late, isVerified: true });
  expect((await login(origin, 'github')).status).toBe(403);
  expect((await login(origin, 'google')).status).toBe(200);
  expect((await login(origin, 'github')).status).toBe(200);
});

test('of two people of one provider with the same address, one gets the account', async () => {
  for (let round = 0; round < 5; round++) {
    const email = `contested-${round}@example.com`;
    await origin.addUser(email, null);
    saysWho({ email, isVerified: true, person: `one-${round}` });
    const first = await authorized(origin, 'github');
    const one = callback(origin, 'github', first);
    saysWho({ email, isVerified: true, person: `other-${round}` });
    const other = login(origin, 'github');
    await Promise.all([one, other]);
    const linked = await origin.db.query(
      `SELECT FROM user_identities i JOIN users u ON u.id = i.user_id WHERE u.email = $1 AND i.provider = 'github'`,
      [email],
    );
    expect(linked).toHaveLength(1);
  }
});

test('a provider that returns no identity does not allow a login', async () => {
  github.user = { login: 'ada' };
  expect((await login(origin, 'github')).status).toBe(401);
});

const sameOrigin = { 'Sec-Fetch-Site': 'same-origin' };
const cookieOf = (answer: { headers: Headers }) => answer.headers.get('set-cookie')?.split(';')[0] ?? '';

/** What the browser returns after the login at the provider. */
async function broughtBack(started: { body: unknown }): Promise<{ code: string; state: string }> {
  const { authorization_url } = started.body as { authorization_url: string };
  const redirect = await fetch(authorization_url, { redirect: 'manual' });
  const back = new URL(redirect.headers.get('location') ?? '');
  return { code: back.searchParams.get('code') ?? '', state: back.searchParams.get('state') ?? '' };
}

test.each(providers)('%s: a login that a page started can only be completed in the same browser', async (name) => {
  const begin = () => origin.send(`/auth/oauth/${name}/start`, { body: {}, headers: sameOrigin });
  const [mine, others] = [await begin(), await begin()];
  expect(mine.headers.get('set-cookie')).toMatch(
    /^__Host-signpost-login-[0-9a-f]{16}=[\w-]{43}; Max-Age=600; Path=\/; Secure; HttpOnly; SameSite=Lax$/,
  );
  const body = await broughtBack(mine);
  const finish = (cookie: string) =>
    origin.send(`/auth/oauth/${name}/callback`, { body, headers: cookie === '' ? {} : { Cookie: cookie } });
  const renamed = `${cookieOf(mine).split('=')[0]}=${cookieOf(others).split('=')[1]}`;
  for (const cookie of ['', cookieOf(others), renamed]) expect((await finish(cookie)).status).toBe(401);
  expect((await finish(`theme=dark; ${cookieOf(others)}; ${cookieOf(mine)}`)).status).toBe(200);
});

test.each(providers)(
  '%s: in a browser that states only the origin of the page, its login is bound too',
  async (name) => {
    const headers = { Origin: 'https://own.example' };
    const started = await origin.send(`/auth/oauth/${name}/start`, { body: {}, headers });
    expect(cookieOf(started)).toMatch(/^__Host-signpost-login-/);
    const body = await broughtBack(started);
    const others = await broughtBack(await start(origin, name));
    const finish = (given: object, cookie: string) =>
      origin.send(`/auth/oauth/${name}/callback`, { body: given, headers: { ...headers, Cookie: cookie } });
    expect((await finish(others, cookieOf(started))).status).toBe(401);
    expect((await finish(body, cookieOf(started))).status).toBe(200);
  },
);

test.each(providers)('%s: a login with a challenge can only be completed with its verifier', async (name) => {
  const verifier = 'v'.repeat(43);
  const code_challenge = createHash('sha256').update(verifier).digest('base64url');
  const started = await start(origin, name, { code_challenge });
  expect(started.headers.get('set-cookie')).toBeNull();
  const body = await broughtBack(started);
  expect((await callback(origin, name, body)).status).toBe(401);
  expect((await callback(origin, name, { ...body, code_verifier: 'w'.repeat(43) })).status).toBe(401);
  expect((await callback(origin, name, { ...body, code_verifier: verifier })).status).toBe(200);
  for (const wrong of ['', 'x', `${code_challenge}=`, verifier.repeat(2)]) {
    expect((await start(origin, name, { code_challenge: wrong })).status).toBe(400);
  }
  expect((await callback(origin, name, { ...body, code_verifier: 'short' })).status).toBe(400);
});

test('two concurrent first logins create one account with one organization', async () => {
  saysWho({ email: 'twice@example.com', isVerified: true });
  const answers = await Promise.all([login(signup, 'github'), login(signup, 'google'), login(signup, 'github')]);
  expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200]);
  const me = await signup.send('/me', { token: pairOf(answers[0] ?? (await login(signup, 'github'))).access_token });
  expect((me.body as { organizations: object[] }).organizations).toHaveLength(1);
});

test('github: a verified address that is not preferred is sufficient, an unverified preferred one is not', async () => {
  github.emails = [
    { email: 'ada@example.org', verified: false, primary: true },
    { email: 'ada@example.com', verified: true, primary: false },
  ];
  expect((await login(origin, 'github')).status).toBe(200);
});

test.each(providers)('%s: the browser returns to the requested address, if it is on the list', async (name) => {
  const { code, state, back } = await authorized(origin, name, { redirect_uri: otherRedirectUri });
  expect(back.href.startsWith('https://other.example.com/back?')).toBe(true);
  expect((await callback(origin, name, { code, state })).status).toBe(200);
  for (const elsewhere of ['https://evil.example.com/callback', `${redirectUri}/`, `${redirectUri}?x=1`, '']) {
    expect(await start(origin, name, { redirect_uri: elsewhere })).toMatchObject({
      status: 400,
      body: { error: { details: { field: 'redirect_uri' } } },
    });
  }
});

test('an unknown or unconfigured provider gets 404 at start and callback', async () => {
  const bare = await startTestOrigin(database.url, redis.url);
  try {
    for (const name of ['google', 'github', 'facebook', 'constructor']) {
      const at = name === 'facebook' || name === 'constructor' ? origin : bare;
      expect((await at.send(`/auth/oauth/${name}/start`, { body: {} })).status).toBe(404);
      expect((await at.send(`/auth/oauth/${name}/callback`, { body: { code: 'a', state: 'b' } })).status).toBe(404);
    }
  } finally {
    await bare.close();
  }
});

test('a login may be started without a body', async () => {
  const answer = await origin.send('/auth/oauth/github/start', { body: {}, headers: { 'Content-Type': '' } });
  expect([200, 400]).toContain(answer.status);
  expect((await start(origin, 'github', { scope: 'repo' })).status).toBe(400);
});

test('google: an id token of another audience, another nonce or another time is refused', async () => {
  for (const wrong of [{ aud: 'other-client' }, { nonce: 'other' }, { exp: 1 }, { iss: 'https://evil.example.com' }]) {
    saysWho({ email: 'ada@example.com', isVerified: true });
    Object.assign(claims, wrong);
    expect((await login(origin, 'google')).status, JSON.stringify(wrong)).toBe(401);
  }
});

test('a failing provider is a 500 with Retry-After, and is called again at the next login', async () => {
  const { code, state } = await authorized(origin, 'github');
  github.failure = 503;
  const refused = await callback(origin, 'github', { code, state });
  expect(refused.status).toBe(500);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  github.failure = 200;
  expect((await login(origin, 'github')).status).toBe(200);
});

test('an unavailable provider is a 500 with Retry-After, already at the start', async () => {
  const offline = await startTestOrigin(database.url, redis.url, {
    OAUTH_GOOGLE_CLIENT_ID: 'google-client',
    OAUTH_GOOGLE_CLIENT_SECRET: 'google-secret',
    OAUTH_GOOGLE_ISSUER: 'http://127.0.0.1:1',
    OAUTH_REDIRECT_URIS: redirectUri,
  });
  try {
    const answer = await start(offline, 'google');
    expect(answer.status).toBe(500);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  } finally {
    await offline.close();
  }
});

test.each(['http://github.example.com', 'ftp://github.com', 'github.com', ''])(
  'the address of a provider must be https: %j',
  (url) => {
    const settings = { OAUTH_GITHUB_CLIENT_ID: 'x', OAUTH_GITHUB_CLIENT_SECRET: 'y', OAUTH_REDIRECT_URIS: redirectUri };
    const config = { ...loadConfig([], settings), OAUTH_GITHUB_URL: url };
    expect(() => oauthProviders(config)).toThrow('OAUTH_GITHUB_URL');
  },
);

test.each(['https://a.example.com', 'https://a.example.com/back?x=1', 'https://a.example.com/back#x', 'back'])(
  'a redirect URI that could not be repeated identically to the provider is rejected at startup: %s',
  (uri) => {
    const config = loadConfig([], { OAUTH_GITHUB_CLIENT_ID: 'x', OAUTH_REDIRECT_URIS: uri });
    expect(() => oauthProviders(config)).toThrow('OAUTH_REDIRECT_URIS');
  },
);

test('a provider with an id and no secret is a settings fault, reported at startup', () => {
  const config = loadConfig([], { OAUTH_GITHUB_CLIENT_ID: 'x', OAUTH_REDIRECT_URIS: redirectUri });
  expect(() => oauthProviders(config)).toThrow('OAUTH_GITHUB_CLIENT_SECRET');
});
