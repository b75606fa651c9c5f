/** Who may use an account that another person created for an address: its owner, from the first proof on. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OAuth2Server } from 'oauth2-mock-server';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addMember, resetPassword } from '#api/admin/accounts.ts';
import { hashOfInvitation } from '#api/people.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { packageRoot } from '#common/process/paths.ts';

const password = 'seven unrelated heavy words';
let google: OAuth2Server;
let api: ApiForTest;
/** The tenant that the attacker wants to enter, and the attacker's own. */
let a: Member;
let b: Member;
let claims: Record<string, unknown>;
let addresses = 0;

beforeAll(async () => {
  google = new OAuth2Server();
  await google.issuer.keys.generate('RS256');
  await google.start(0, '127.0.0.1');
  google.service.on('beforeTokenSigning', (token: { payload: Record<string, unknown> }) => {
    Object.assign(token.payload, claims);
  });
  api = await apiForTest({
    OAUTH_GOOGLE_CLIENT_ID: 'google-client',
    OAUTH_GOOGLE_CLIENT_SECRET: 'google-secret',
    OAUTH_GOOGLE_ISSUER: google.issuer.url ?? '',
    OAUTH_REDIRECT_URIS: 'https://dashboard.example.com/callback',
  });
  [a, b] = [await api.member(), await api.member()];
});
afterAll(async () => {
  await api.stop();
  await google.stop();
});

const login = (email: string) => api.call('', 'POST', '/auth/login', { email, password });
const meOf = async (token: string) => (await api.call(token, 'GET', '/me')).body;
const invite = async (by: Member, email: string): Promise<string> =>
  (await by.call('POST', '/invitations', { email, role: 'member' })).body.token;

/** An account for a stranger's address, as its attacker creates it: with a password, a second factor and a login. */
async function hijacked() {
  const email = `victim-${addresses++}@example.com`;
  const accepted = { token: await invite(b, email), password };
  expect((await api.call('', 'POST', '/auth/invitations/accept', accepted)).status).toBe(201);
  const { access_token, refresh_token } = (await login(email)).body;
  const { secret } = (await api.call(access_token, 'POST', '/me/totp', { password })).body;
  const totp = new TOTP({ secret: Secret.fromBase32(secret) });
  const confirmed = await api.call(access_token, 'POST', '/me/totp/confirm', {
    totp_code: totp.generate({ timestamp: systemClock() }),
  });
  expect(confirmed.status).toBe(200);
  return { email, access_token, refresh_token };
}

/** @returns the access token of the owner of the address. */
async function googleLogin(email: string): Promise<string> {
  claims = { sub: `google-${email}`, email, email_verified: true, name: 'Victim' };
  const { authorization_url } = (await api.call('', 'POST', '/auth/oauth/google/start', {})).body;
  const redirect = await fetch(authorization_url, { redirect: 'manual' });
  const back = new URL(redirect.headers.get('location') ?? '').searchParams;
  const shown = { code: back.get('code'), state: back.get('state') };
  const reply = await api.call('', 'POST', '/auth/oauth/google/callback', shown);
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.access_token;
}

async function expectNothingOf({ email, access_token, refresh_token }: Awaited<ReturnType<typeof hijacked>>) {
  expect((await login(email)).status).toBe(401);
  expect((await api.call(access_token, 'GET', '/me')).status).toBe(401);
  expect((await api.call('', 'POST', '/auth/refresh', { refresh_token })).status).toBe(401);
}

test('an account that accepted an invitation whose link its inviter saw is unverified, and joins no further organization', async () => {
  const { email, access_token } = await hijacked();
  expect((await meOf(access_token)).user.email_verified).toBe(false);
  const token = await invite(a, email);
  const refused = await api.call(access_token, 'POST', '/me/invitations', { token });
  expect([refused.status, refused.body.error.details.reason]).toEqual([403, 'email_unverified']);
  expect((await meOf(access_token)).organizations.map(({ id }: { id: string }) => id)).toEqual([b.organization_id]);
});

test('the first login through a provider ends the password, second factor and sessions of the person who created the account', async () => {
  const attacker = await hijacked();
  const victim = await googleLogin(attacker.email);
  await expectNothingOf(attacker);
  expect((await meOf(victim)).user).toMatchObject({ email_verified: true, totp_enabled: false });
  const token = await invite(a, attacker.email);
  expect((await api.call(victim, 'POST', '/me/invitations', { token })).status).toBe(200);
  expect((await login(attacker.email)).status).toBe(401);
});

test('a mailed link for a new password ends the second factor and sessions of the person who created the account', async () => {
  const attacker = await hijacked();
  await api.db.execute(
    `INSERT INTO password_resets (id, user_id, token_hash, created_at, expires_at)
     SELECT 'rst_mailed', id, $2, now(), now() + interval '1 hour' FROM users WHERE email = $1`,
    [attacker.email, hashOfInvitation('mailed')],
  );
  const chosen = { token: 'mailed', password: `${password} of the victim` };
  expect((await api.call('', 'POST', '/auth/password-reset/confirm', chosen)).status).toBe(200);
  await expectNothingOf(attacker);
  const victim = await api.call('', 'POST', '/auth/login', { email: attacker.email, password: chosen.password });
  expect((await meOf(victim.body.access_token)).user).toMatchObject({ email_verified: true, totp_enabled: false });
});

test('an operator adds no unverified account to an organization, before they have set a new password', async () => {
  const attacker = await hijacked();
  const parts = { db: api.db, clock: systemClock };
  const add = () => addMember(parts, attacker.email, a.organization_id, 'member');
  expect(await add()).toMatchObject({ kind: 'refused' });
  expect(await resetPassword(parts, attacker.email, `${password} of the operator`)).toEqual({ kind: 'reset' });
  await expectNothingOf(attacker);
  expect(await add()).toMatchObject({ kind: 'added' });
});

test('of accounts from before, those are unverified that accepted an invitation and were proven by nothing since', async () => {
  const [update = ''] =
    /UPDATE users u SET[^;]*/.exec(
      readFileSync(join(packageRoot(), 'pg-migrations', '0977_proven_addresses.sql'), 'utf8'),
    ) ?? [];
  const people = {
    invited: ['acceptInvitation'],
    reset: ['acceptInvitation', 'resetPassword'],
    joined: ['acceptInvitation'],
    operator: ['acceptOwnInvitation', 'changePassword'],
  };
  const ids: Record<string, string> = {};
  for (const [name, actions] of Object.entries(people)) {
    const { user_id, organization_id } = await api.member();
    ids[name] = user_id;
    for (const action of actions)
      await api.db.query('SELECT signpost_note_change($1, $2, $3, $2, NULL, $4, $5, $5)', [
        ...[organization_id, user_id, action, [], ''],
      ]);
  }
  await api.db.execute(
    `INSERT INTO user_identities (provider, subject, user_id, email, created_at, last_login_at)
     VALUES ('google', 'before', $1, 'joined@example.com', now(), now())`,
    [ids['joined']],
  );
  await api.db.execute(update);
  const rows = await api.db.query<{ id: string }>(
    'SELECT id FROM users WHERE unverified_since IS NOT NULL AND id = ANY ($1)',
    [Object.values(ids)],
  );
  expect(rows).toEqual([{ id: ids['invited'] }]);
});

test('a verified account keeps its password, second factor and logins when a provider joins it', async () => {
  const person = await api.member();
  const email = `${person.user_id}@example.com`;
  await resetPassword({ db: api.db, clock: () => 0 }, email, password);
  const before = (await login(email)).body.access_token;
  await googleLogin(email);
  expect((await login(email)).status).toBe(200);
  expect((await meOf(before)).user.email_verified).toBe(true);
});
