import { Secret, TOTP } from 'otpauth';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { resetPassword } from '#api/admin/accounts.ts';
import { requireTotp, resetTotp } from '#api/admin/second-factor.ts';
import { reencryptSecondFactors } from '#api/admin/secret-rotation.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { SecondFactor } from './second-factor.ts';

let api: ApiForTest;
let ada: Member;
let aheadMs = 0;
const password = 'correct horse battery staple';

beforeAll(async () => {
  api = await apiForTest();
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());
beforeEach(async () => {
  ada = await newMember();
});

const parts = () => ({ db: api.db, clock: () => systemClock() + aheadMs });
const emailOf = ({ user_id }: Member) => `${user_id}@example.com`;

async function newMember(role: 'owner' | 'viewer' = 'owner', organizationId?: string): Promise<Member> {
  const member = await api.member(role, organizationId);
  await resetPassword({ db: api.db, clock: () => 0 }, emailOf(member), password);
  return member;
}

/** Advances the clock by a step for each code, because codes are valid once. */
function nextCode(secret: string): string {
  aheadMs += 30_000;
  api.advance(30_000);
  return new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: systemClock() + aheadMs });
}

const login = (member: Member, totp_code?: string) =>
  api.call('', 'POST', '/auth/login', { email: emailOf(member), password, ...(totp_code ? { totp_code } : {}) });
const reasonOf = (reply: { body: { error?: { details?: { reason?: string } } } }) => reply.body.error?.details?.reason;

async function enable(member: Member): Promise<{ secret: string; recovery_codes: string[]; token: string }> {
  const { access_token: token } = (await login(member)).body;
  const { secret } = (await api.call(token, 'POST', '/me/totp', { password })).body;
  const confirmed = await api.call(token, 'POST', '/me/totp/confirm', { totp_code: nextCode(secret) });
  expect(confirmed.status, JSON.stringify(confirmed.body)).toBe(200);
  return { secret, recovery_codes: confirmed.body.recovery_codes, token };
}

test('a second factor is active once a code has confirmed it, and every login then needs a code', async () => {
  const { access_token: token } = (await login(ada)).body;
  const begun = await api.call(token, 'POST', '/me/totp', { password });
  expect(begun.body.otpauth_url).toContain(`secret=${begun.body.secret}`);
  expect(begun.body.otpauth_url).toMatch(/^otpauth:\/\/totp\/Signpost:/);
  expect((await login(ada)).status).toBe(200);
  const confirmed = await api.call(token, 'POST', '/me/totp/confirm', { totp_code: nextCode(begun.body.secret) });
  expect(confirmed.body).toMatchObject({ totp_enabled: true });
  expect(new Set(confirmed.body.recovery_codes).size).toBe(10);
  expect((await api.call(token, 'GET', '/me')).body.user.totp_enabled).toBe(true);
  const asked = await login(ada);
  expect([asked.status, asked.body.error.code, reasonOf(asked)]).toEqual([401, 'UNAUTHORIZED', 'totp_required']);
  const wrong = await login(ada, '000000');
  expect([wrong.status, reasonOf(wrong)]).toEqual([401, 'totp_invalid']);
  expect((await login(ada, nextCode(begun.body.secret))).status).toBe(200);
});

test('a wrong password gets the same answer with and without a second factor, whatever code is sent', async () => {
  const { secret } = await enable(ada);
  const bob = await newMember();
  const wrong = (member: Member, totp_code?: string) =>
    api.call('', 'POST', '/auth/login', {
      email: emailOf(member),
      password: 'wrong',
      ...(totp_code ? { totp_code } : {}),
    });
  const answers = [await wrong(ada), await wrong(ada, nextCode(secret)), await wrong(bob)];
  expect(new Set(answers.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
});

test('a code is valid once, even for ten concurrent logins, and within a step of its time', async () => {
  const { secret } = await enable(ada);
  const code = nextCode(secret);
  const answers = await Promise.all(Array.from({ length: 10 }, () => login(ada, code)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  const late = nextCode(secret);
  nextCode(secret);
  nextCode(secret);
  expect(reasonOf(await login(ada, late))).toBe('totp_invalid');
});

test('a recovery code is valid once, however it is typed', async () => {
  const { recovery_codes } = await enable(ada);
  const [first = '', second = ''] = recovery_codes;
  expect((await login(ada, first.toUpperCase().replaceAll('-', ' '))).status).toBe(200);
  expect(reasonOf(await login(ada, first))).toBe('totp_invalid');
  expect((await login(ada, second)).status).toBe(200);
});

test('codes can be guessed no faster than passwords', { tags: ['slow'] }, async () => {
  await enable(ada);
  const answers = [];
  for (let n = 0; n < 15; n++) answers.push(await login(ada, String(100_000 + n)));
  expect(answers.filter(({ status }) => status === 401).length).toBeLessThanOrEqual(11);
  expect(answers.at(-1)?.status).toBe(429);
});

test('setting up a second factor requires the password, disabling it requires a code', async () => {
  const { access_token } = (await login(ada)).body;
  for (const [body, field] of [
    [{}, 'password'],
    [{ password: 'wrong' }, 'password'],
    [{ password, more: 1 }, 'more'],
  ] as const) {
    const reply = await api.call(access_token, 'POST', '/me/totp', body);
    expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
  }
  expect((await api.call(access_token, 'POST', '/me/totp/disable', { totp_code: '1' })).status).toBe(404);
  const { secret, token } = await enable(ada);
  const again = await api.call(token, 'POST', '/me/totp', { password });
  expect([again.status, again.body.error.details.field]).toEqual([400, 'body']);
  for (const path of ['/me/totp/confirm', '/me/totp/disable']) {
    const reply = await api.call(token, 'POST', path, { totp_code: '000000' });
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'totp_code']);
    expect((await api.call(token, 'POST', path, {})).status).toBe(400);
    expect((await api.call('', 'POST', path, { totp_code: '000000' })).status).toBe(401);
  }
  expect((await api.call('', 'POST', '/me/totp', { password })).status).toBe(401);
  const off = await api.call(token, 'POST', '/me/totp/disable', { totp_code: nextCode(secret) });
  expect(off.body).toEqual({ totp_enabled: false });
  expect((await login(ada)).status).toBe(200);
  expect(await api.db.query('SELECT FROM recovery_codes WHERE user_id = $1', [ada.user_id])).toEqual([]);
});

test('a viewer can set up a second factor for their own account', async () => {
  const viewer = await newMember('viewer', ada.organization_id);
  expect((await enable(viewer)).recovery_codes).toHaveLength(10);
});

test('an organization that requires a second factor can be accessed only with one', async () => {
  const app = (await api.call((await login(ada)).body.access_token, 'POST', '/apps', { name: 'App' })).body;
  expect(await requireTotp(parts(), ada.organization_id, true)).toMatchObject({ kind: 'set', members_without: 1 });
  const { access_token } = (await login(ada)).body;
  const barred = await api.call(access_token, 'GET', `/apps/${app.id}`);
  expect([barred.status, reasonOf(barred)]).toEqual([403, 'totp_setup_required']);
  const me = await api.call(access_token, 'GET', '/me');
  expect(me.body).toMatchObject({ user: { totp_enabled: false }, organizations: [{ totp_required: true }] });
  const { token } = await enable(ada);
  expect((await api.call(token, 'GET', `/apps/${app.id}`)).status).toBe(200);
  expect(await resetTotp(parts(), emailOf(ada))).toEqual({ kind: 'reset' });
  expect((await api.call(token, 'GET', `/apps/${app.id}`)).status).toBe(403);
  await requireTotp(parts(), ada.organization_id, false);
  expect((await api.call(token, 'GET', `/apps/${app.id}`)).status).toBe(200);
});

test('a member of an organization that requires a second factor keeps access to their other organizations', async () => {
  const other = await api.member();
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'owner')`, [
    ada.user_id,
    other.organization_id,
  ]);
  await requireTotp(parts(), ada.organization_id, true);
  const { access_token } = (await login(ada)).body;
  const list = (id: string) => api.call(access_token, 'GET', `/apps?organization_id=${id}`);
  expect((await list(other.organization_id)).status).toBe(200);
  expect((await list(ada.organization_id)).status).toBe(403);
});

test('neither the secret nor a recovery code is in the database, and a rotated key decrypts the secret', async () => {
  const { secret, recovery_codes } = await enable(ada);
  const rows = await api.db.query<{ line: string }>(
    'SELECT t::text AS line FROM user_totp t UNION ALL SELECT r::text FROM recovery_codes r',
  );
  for (const { line } of rows) for (const text of [secret, ...recovery_codes]) expect(line).not.toContain(text);
  const rotated = parseSecretKeys(`${newSecretKey('newer')},${api.secretKey}`);
  expect(await reencryptSecondFactors(api.db, new Encryption(rotated))).toBeGreaterThan(0);
  const [newest] = rotated;
  if (!newest) throw new Error('no key');
  const alone = new SecondFactor(api.db, new Encryption([newest]), () => systemClock() + aheadMs);
  expect(await alone.take(ada.user_id, nextCode(secret))).toBe(true);
  expect(await reencryptSecondFactors(api.db, new Encryption(rotated))).toBe(0);
});
