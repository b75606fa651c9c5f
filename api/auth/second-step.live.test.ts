import { createHash, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { resetTotp } from '#api/admin/second-factor.ts';
import { type GithubFixture, githubSettings, startGithubFixture } from '#api/testing/github.ts';
import { pairOf, startTestOrigin, type TestAnswer, type TestOrigin } from '#api/testing/origin.ts';
import { systemClock } from '#common/clock.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';

const redirectUri = 'https://dashboard.example.com/callback';

let database: TestDatabase;
let redis: TestServer;
let github: GithubFixture;
let origin: TestOrigin;
let aheadMs = 0;
let people = 0;
let ada: { id: string; email: string; secret: string; recovery: string[] };

beforeAll(async () => {
  [database, redis, github] = await Promise.all([postgresForTest(), redisForTest(), startGithubFixture()]);
  const settings = { ...githubSettings(github), OAUTH_REDIRECT_URIS: redirectUri, LOGIN_FAILURES_FREE: '5' };
  origin = await startTestOrigin(database.url, redis.url, settings);
});
afterAll(async () => {
  await origin.close();
  await Promise.all([github.stop(), database.stop(), redis.stop()]);
});
beforeEach(async () => {
  ada = await withSecondFactor();
});

const callback = (body: object) => origin.send('/auth/oauth/github/callback', { body });
const reasonOf = ({ body }: TestAnswer) =>
  (body as { error?: { details?: { reason?: string } } }).error?.details?.reason;

/** The provider's callback parameters for the user that the fixture names. */
async function fromProvider(more: object = {}): Promise<{ code: string; state: string }> {
  const started = await origin.send('/auth/oauth/github/start', { body: more });
  const redirect = await fetch((started.body as { authorization_url: string }).authorization_url, {
    redirect: 'manual',
  });
  const back = new URL(redirect.headers.get('location') ?? '');
  return { code: back.searchParams.get('code') ?? '', state: back.searchParams.get('state') ?? '' };
}

/** Codes are valid once, so each one is for a time 30 seconds later. */
function nextCode(secret: string): string {
  aheadMs += 30_000;
  origin.advance(30_000);
  return new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: systemClock() + aheadMs });
}

/** A person who logs in through the provider, and has set up a second factor. */
async function withSecondFactor(): Promise<typeof ada> {
  const email = `person-${++people}@example.com`;
  const id = await origin.addUser(email, null);
  github.emails = [{ email, verified: true, primary: true }];
  github.user = { id: people, login: 'ada', name: 'Ada' };
  const token = pairOf(await callback(await fromProvider())).access_token;
  const { secret } = (await origin.send('/me/totp', { token, body: {} })).body as { secret: string };
  const confirmed = await origin.send('/me/totp/confirm', { token, body: { totp_code: nextCode(secret) } });
  const { recovery_codes } = confirmed.body as { recovery_codes: string[] };
  return { id, email, secret, recovery: recovery_codes };
}

test('a login through a provider requires the second factor, and the same call with a code completes it', async () => {
  const login = await fromProvider();
  const asked = await callback(login);
  expect([asked.status, reasonOf(asked)]).toEqual([401, 'totp_required']);
  const wrong = await callback({ ...login, totp_code: '000000' });
  expect([wrong.status, reasonOf(wrong)]).toEqual([401, 'totp_invalid']);
  const answer = await callback({ ...login, totp_code: nextCode(ada.secret) });
  const me = await origin.send('/me', { token: pairOf(answer).access_token });
  expect(me.body).toMatchObject({ user: { id: ada.id, totp_enabled: true } });
  expect((await callback({ ...login, totp_code: nextCode(ada.secret) })).status).toBe(401);
});

test('a code in the first call is enough, even a recovery code, and no code is valid twice', async () => {
  const totp_code = nextCode(ada.secret);
  expect((await callback({ ...(await fromProvider()), totp_code })).status).toBe(200);
  expect(reasonOf(await callback({ ...(await fromProvider()), totp_code }))).toBe('totp_invalid');
  expect((await callback({ ...(await fromProvider()), totp_code: ada.recovery[0] })).status).toBe(200);
  expect(reasonOf(await callback({ ...(await fromProvider()), totp_code: ada.recovery[0] }))).toBe('totp_invalid');
});

test('of ten concurrent calls with one code, one logs in', async () => {
  const login = await fromProvider();
  expect((await callback(login)).status).toBe(401);
  const totp_code = nextCode(ada.secret);
  const answers = await Promise.all(Array.from({ length: 10 }, () => callback({ ...login, totp_code })));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
});

test('the second call needs the same state, provider code and binding', async () => {
  const code_verifier = randomBytes(32).toString('base64url');
  const code_challenge = createHash('sha256').update(code_verifier).digest('base64url');
  const login = await fromProvider({ code_challenge });
  expect(reasonOf(await callback({ ...login, code_verifier }))).toBe('totp_required');
  const totp_code = nextCode(ada.secret);
  const another = await fromProvider();
  for (const other of [
    { ...login, totp_code },
    { ...login, code_verifier: randomBytes(32).toString('base64url'), totp_code },
    { ...login, code_verifier, code: another.code, totp_code },
    { ...login, code_verifier, state: another.state, totp_code },
  ]) {
    const answer = await callback(other);
    expect([answer.status, reasonOf(answer)]).toEqual([401, undefined]);
  }
  expect((await callback({ ...login, code_verifier, totp_code })).status).toBe(200);
});

test('wrong codes do not extend the time of a login', async () => {
  const login = await fromProvider();
  await callback(login);
  aheadMs += 590_000;
  origin.advance(590_000);
  expect(reasonOf(await callback({ ...login, totp_code: '000000' }))).toBe('totp_invalid');
  aheadMs += 11_000;
  origin.advance(11_000);
  const late = await callback({ ...login, totp_code: nextCode(ada.secret) });
  expect([late.status, reasonOf(late)]).toEqual([401, undefined]);
});

test('codes can be guessed no faster than passwords, with any number of logins through the provider', async () => {
  const statuses = [];
  for (let n = 0; n < 7; n++) {
    statuses.push((await callback({ ...(await fromProvider()), totp_code: '000000' })).status);
  }
  expect(statuses).toEqual([401, 401, 401, 401, 401, 401, 429]);
  // A delayed login is not lost.
  const login = await fromProvider();
  expect((await callback({ ...login, totp_code: nextCode(ada.secret) })).status).toBe(200);
});

test('without a second factor a provider is enough, and a user who lost their second factor can log in after a reset', async () => {
  const login = await fromProvider();
  expect((await callback(login)).status).toBe(401);
  await resetTotp({ db: origin.db, clock: systemClock }, ada.email);
  expect((await callback(login)).status).toBe(200);
});

test('a login that waits for a code leaves no code and no state in the database', async () => {
  const login = await fromProvider();
  await callback(login);
  const [row] = await origin.db.query<{ line: string }>(
    'SELECT s::text AS line FROM oauth_states s WHERE user_id = $1',
    [ada.id],
  );
  expect(row?.line).toBeDefined();
  for (const secret of [login.code, login.state]) {
    expect(row?.line).not.toContain(secret);
    expect(row?.line).not.toContain(Buffer.from(secret).toString('hex'));
  }
});
