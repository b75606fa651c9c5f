/** What a provider says about a person, when the provider is lax or the person is an attacker. */
import { OAuth2Server } from 'oauth2-mock-server';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type GithubFixture, githubSettings, startGithubFixture } from '#api/testing/github.ts';
import { type ApiForTest, apiForTest, type Reply } from '#api/testing/running-api.ts';

const password = 'seven unrelated heavy words';
let api: ApiForTest;
let google: OAuth2Server;
let github: GithubFixture;
let claims: Record<string, unknown>;
let people = 0;

beforeAll(async () => {
  google = new OAuth2Server();
  await google.issuer.keys.generate('RS256');
  await google.start(0, '127.0.0.1');
  google.service.on('beforeTokenSigning', (token: { payload: Record<string, unknown> }) => {
    Object.assign(token.payload, claims);
  });
  github = await startGithubFixture();
  api = await apiForTest({
    ...githubSettings(github),
    OAUTH_GOOGLE_CLIENT_ID: 'google-client',
    OAUTH_GOOGLE_CLIENT_SECRET: 'google-secret',
    OAUTH_GOOGLE_ISSUER: google.issuer.url ?? '',
    OAUTH_REDIRECT_URIS: 'https://dashboard.example.com/callback',
    OAUTH_SIGNUP: 'true',
  });
});
afterAll(async () => {
  await api.stop();
  await Promise.all([google.stop(), github.stop()]);
});
beforeEach(() => {
  api.failures.length = 0;
});

type Headers = Record<string, string>;
const ownPage: Headers = { 'Sec-Fetch-Site': 'same-origin', 'X-Signpost-Session': '1' };

async function send(path: string, body: object, headers: Headers = {}): Promise<Reply> {
  const answer = await fetch(`${api.url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Forwarded-Proto': 'https', ...headers },
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json(), headers: answer.headers };
}

/** What the browser returns with, and the cookie of the start. */
async function started(name: 'google' | 'github', headers: Headers = {}) {
  const start = await send(`/auth/oauth/${name}/start`, {}, headers);
  const redirect = await fetch(start.body.authorization_url, { redirect: 'manual' });
  const back = new URL(redirect.headers.get('location') ?? '').searchParams;
  const cookie = start.headers.get('set-cookie')?.split(';')[0] ?? '';
  return { shown: { code: back.get('code'), state: back.get('state') }, cookie };
}

async function login(name: 'google' | 'github'): Promise<Reply> {
  return send(`/auth/oauth/${name}/callback`, (await started(name)).shown);
}

function googleSays(about: Record<string, unknown>): Promise<Reply> {
  claims = {
    sub: `person-${people++}`,
    email: `person-${people}@claims.test`,
    email_verified: true,
    name: 'Ada',
    ...about,
  };
  return login('google');
}

function githubSays(email: unknown, user: object = {}): Promise<Reply> {
  github.emails = [{ email, verified: true, primary: true }] as GithubFixture['emails'];
  github.user = { id: 1_000_000 + people++, login: 'ada', name: 'Ada', ...user };
  return login('github');
}

const usersNow = async () => (await api.db.query<{ n: number }>('SELECT count(*) AS n FROM users'))[0]?.n;

const noAddresses = [
  'Your account is locked. Confirm it at https://evil.test/login within 24 hours.\n\nx@v.test',
  'notanemail',
  '\ud800@v.test',
  'a@b.test\nBcc: x@v.test',
  'evil.test/login@v.test',
  '=?utf-8?q?Payroll?=@v.test',
  'a\u202e@v.test',
  'a\0@v.test',
  'müller@v.test',
  `${'a'.repeat(400)}@v.test`,
  ' a@v.test',
  17,
];

test.each(noAddresses)(
  'an account is not created with the address %j, whatever provider says that it is verified',
  async (email) => {
    const before = await usersNow();
    expect([(await googleSays({ email })).status, (await githubSays(email)).status]).toEqual([401, 401]);
    expect(await usersNow()).toBe(before);
    expect(api.failures).toEqual([]);
  },
);

test.each([
  { sub: 'a\0' },
  { sub: 'a'.repeat(256) },
  { sub: 17 },
  { sub: '\ud800' },
  { name: 'A\0' },
  { name: '\ud800' },
  { name: 17 },
])('the claims %j are a 401', async (about) => {
  const before = await usersNow();
  expect((await googleSays(about)).status).toBe(401);
  expect(await usersNow()).toBe(before);
  expect(api.failures).toEqual([]);
});

test.each([{ name: 'A\0' }, { name: 17 }, { id: '17' }, { id: null }])(
  'the user %j of GitHub is a 401',
  async (user) => {
    expect((await githubSays(`github-${people}@claims.test`, user)).status).toBe(401);
    expect(api.failures).toEqual([]);
  },
);

test('of several addresses, those that cannot be one are left out', async () => {
  const email = `second-${people}@claims.test`;
  github.emails = [
    { email: 'not an address', verified: true, primary: true },
    { email, verified: true, primary: false },
  ];
  github.user = { id: 1_000_000 + people++, login: 'ada', name: 'Ada' };
  const { access_token } = (await login('github')).body;
  expect((await api.call(access_token, 'GET', '/me')).body.user.email).toBe(email);
});

test('marks that turn or hide text are removed from the name of a new account and its organization', async () => {
  const { access_token } = (await googleSays({ name: '\u202eAda\u2066 \u200bInc' })).body;
  const { user, organizations } = (await api.call(access_token, 'GET', '/me')).body;
  expect([user.name, organizations[0].name]).toEqual(['Ada Inc', 'Ada Inc']);
});

test('only ASCII letters of an address are the same in both cases: the Kelvin sign is no k', async () => {
  const mike = await api.member();
  const set =
    'UPDATE users SET email = $2, password_hash = (SELECT password_hash FROM users WHERE password_hash IS NOT NULL LIMIT 1) WHERE id = $1';
  await api.db.execute(set, [mike.user_id, 'mike@k.test']);
  expect((await googleSays({ email: 'mi\u212ae@k.test' })).status).toBe(401);
  expect((await githubSays('mi\u212ae@k.test')).status).toBe(401);
  expect((await googleSays({ email: 'MIKE@K.test' })).status).toBe(200);
  expect(await api.db.query('SELECT FROM user_identities WHERE user_id = $1', [mike.user_id])).toHaveLength(1);
});

test('a password logs in with an address in other ASCII case, not with a letter that folds to one', async () => {
  const owner = await api.member();
  const { token } = (await owner.call('POST', '/invitations', { email: 'kim@k.test', role: 'member' })).body;
  expect((await api.call('', 'POST', '/auth/invitations/accept', { token, password })).status).toBe(201);
  const at = (email: string) => api.call('', 'POST', '/auth/login', { email, password });
  expect((await at('KIM@k.test')).status).toBe(200);
  expect((await at('\u212aim@k.test')).status).toBe(401);
});

/** Rows of the audit log about the person, with their organization. */
const rowsAbout = (userId: string) =>
  api.db.query<object>('SELECT organization_id, actor_id, action, target_id FROM audit_log WHERE actor_id = $1', [
    userId,
  ]);

test('the first login through a provider has a row in each organization of the person; the next one changes nothing', async () => {
  const ada = await api.member();
  const other = await api.member();
  await api.db.execute("INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')", [
    ada.user_id,
    other.organization_id,
  ]);
  const email = `linked-${people}@claims.test`;
  await api.db.execute('UPDATE users SET email = $2 WHERE id = $1', [ada.user_id, email]);
  expect((await googleSays({ email, sub: `linked-${email}` })).status).toBe(200);
  const row = { actor_id: ada.user_id, action: 'completeOAuthLogin', target_id: ada.user_id };
  const expected = [ada, other].map(({ organization_id }) => ({ organization_id, ...row }));
  expect(await rowsAbout(ada.user_id)).toEqual(expect.arrayContaining(expected));
  expect((await googleSays({ email, sub: `linked-${email}` })).status).toBe(200);
  expect(await rowsAbout(ada.user_id)).toHaveLength(2);
});

test('the login that ends what was set on an unverified account has a row, in the transaction of the change', async () => {
  const owner = await api.member();
  const email = `unverified-${people}@claims.test`;
  const { token } = (await owner.call('POST', '/invitations', { email, role: 'member' })).body;
  const { user_id } = (await api.call('', 'POST', '/auth/invitations/accept', { token, password })).body;
  await api.db.execute('ALTER TABLE audit_log ADD CONSTRAINT takes_no_rows CHECK (false) NOT VALID');
  expect((await googleSays({ email })).status).toBe(500);
  await api.db.execute('ALTER TABLE audit_log DROP CONSTRAINT takes_no_rows');
  const state =
    'SELECT unverified_since IS NULL AS is_verified, password_hash IS NULL AS is_without FROM users WHERE id = $1';
  expect(await api.db.query(state, [user_id])).toEqual([{ is_verified: false, is_without: false }]);
  expect((await googleSays({ email })).status).toBe(200);
  expect(await api.db.query(state, [user_id])).toEqual([{ is_verified: true, is_without: true }]);
  expect(await rowsAbout(user_id)).toContainEqual({
    organization_id: owner.organization_id,
    actor_id: user_id,
    action: 'completeOAuthLogin',
    target_id: user_id,
  });
});

test('a page of this origin completes only a login whose cookie it has', async () => {
  claims = { sub: 'bound', email: 'bound@claims.test', email_verified: true, name: 'Ada' };
  const callback = '/auth/oauth/google/callback';
  const unbound = await started('google');
  expect((await send(callback, unbound.shown, ownPage)).status).toBe(401);
  // The client that started it can still complete it.
  expect((await send(callback, unbound.shown)).status).toBe(200);
  const bound = await started('google', ownPage);
  expect((await send(callback, bound.shown, ownPage)).status).toBe(401);
  expect((await send(callback, bound.shown, { ...ownPage, Cookie: bound.cookie })).status).toBe(200);
});
