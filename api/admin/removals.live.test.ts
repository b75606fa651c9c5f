import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { ApiKeys } from '#common/api-key.ts';
import { systemClock } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import { AppSnapshots, readAppByKey } from '#common/links/app-snapshot.ts';
import { type AdminParts, addMember, listAccounts, resetPassword } from './accounts.ts';
import { untilDelivered } from './outbox-wait.ts';
import { deleteOrganization, deleteUser, disableUser, enableUser, removeMember } from './removals.ts';

let api: ApiForTest;
let parts: AdminParts;
let owner: Member;

beforeAll(async () => {
  api = await apiForTest();
  parts = { db: api.db, clock: systemClock };
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const emailOf = ({ user_id }: Member) => `${user_id}@example.com`;
const status = async (member: Member, path = '/me') => (await member.call('GET', path)).status;

test('a removed member loses access with the next request, and remains a user', async () => {
  owner = await api.member();
  const member = await api.member('member', owner.organization_id);
  const app = (await owner.call('POST', '/apps', { name: 'App' })).body;
  expect(await status(member, `/apps/${app.id}`)).toBe(200);
  expect(await removeMember(parts, emailOf(member), owner.organization_id)).toMatchObject({ kind: 'removed' });
  expect(await status(member, `/apps/${app.id}`)).toBe(403);
  expect((await member.call('POST', '/links', { app_id: app.id, path: '/x' })).status).toBe(403);
  expect((await member.call('GET', '/me')).body.organizations).toEqual([]);
  expect(await removeMember(parts, emailOf(member), owner.organization_id)).toMatchObject({ kind: 'refused' });
});

test('a disabled user loses access with the next request, and can log in again after being enabled', async () => {
  owner = await api.member();
  await api.member('owner', owner.organization_id);
  expect(await status(owner)).toBe(200);
  expect(await disableUser(parts, emailOf(owner))).toMatchObject({ kind: 'disabled', ownerless: [] });
  const refused = await owner.call('GET', '/me');
  expect([refused.status, refused.body.error.code]).toEqual([401, 'UNAUTHORIZED']);
  const listed = (await listAccounts(parts)).find(({ id }) => id === owner.organization_id);
  expect(listed?.members).toContainEqual({ email: emailOf(owner), role: 'owner', disabled: true });
  expect(await enableUser(parts, emailOf(owner))).toMatchObject({ kind: 'enabled' });
  expect(await status(owner)).toBe(401);
  expect(await enableUser(parts, emailOf(owner))).toMatchObject({ kind: 'refused' });
});

test('the last owner can be disabled, and the command lists organizations left without an owner', async () => {
  owner = await api.member();
  const { organization_id } = owner;
  expect(await disableUser(parts, emailOf(owner))).toMatchObject({ ownerless: [{ id: organization_id }] });
});

test('a deleted user loses access with the next request, and no row of the account remains', async () => {
  owner = await api.member();
  const member = await api.member('member', owner.organization_id);
  await api.db.execute(
    `INSERT INTO refresh_tokens (id, user_id, family_id, token_hash, expires_at) VALUES ($1, $1, $1, $2, now() + interval '1 day')`,
    [member.user_id, Buffer.from(member.user_id)],
  );
  await api.db.execute(
    `INSERT INTO browser_sessions (id, user_id, token_hash, created_at, expires_at) VALUES ($1, $1, $2, now(), now() + interval '1 day')`,
    [member.user_id, Buffer.from(member.user_id)],
  );
  expect(await deleteUser(parts, emailOf(member))).toEqual({ kind: 'deleted' });
  expect(await status(member)).toBe(401);
  for (const table of ['refresh_tokens', 'browser_sessions', 'memberships']) {
    expect(await api.db.query(`SELECT FROM ${table} WHERE user_id = $1`, [member.user_id])).toEqual([]);
  }
  expect(await api.db.query('SELECT FROM users WHERE id = $1', [member.user_id])).toEqual([]);
  expect(await deleteUser(parts, emailOf(member))).toMatchObject({ kind: 'refused' });
});

test('the last owner cannot be removed, deleted or demoted; disabled owners do not count', async () => {
  owner = await api.member();
  const { organization_id } = owner;
  const other = await api.member('owner', organization_id);
  await disableUser(parts, emailOf(other));
  const attempts = [
    () => removeMember(parts, emailOf(owner), organization_id),
    () => deleteUser(parts, emailOf(owner)),
    () => addMember(parts, emailOf(owner), organization_id, 'member'),
  ];
  for (const attempt of attempts) {
    expect(await attempt()).toMatchObject({ kind: 'refused', message: expect.stringContaining('last owner') });
  }
  expect((await owner.call('GET', '/me')).body.organizations).toMatchObject([{ role: 'owner' }]);
  await enableUser(parts, emailOf(other));
  expect(await addMember(parts, emailOf(owner), organization_id, 'member')).toMatchObject({ kind: 'added' });
});

test('of two owners removed concurrently, one remains', async () => {
  for (let round = 0; round < 10; round++) {
    owner = await api.member();
    const other = await api.member('owner', owner.organization_id);
    const outcomes = await Promise.all([
      removeMember(parts, emailOf(owner), owner.organization_id),
      deleteUser(parts, emailOf(other)),
    ]);
    expect(outcomes.map(({ kind }) => kind).filter((kind) => kind === 'refused')).toHaveLength(1);
  }
});

test('once delete-organization returns, its keys, links and memberships no longer work', async () => {
  owner = await api.member();
  const viewer = await api.member('viewer', owner.organization_id);
  const app = (await owner.call('POST', '/apps', { name: 'App' })).body;
  await owner.call('POST', '/links', { app_id: app.id, path: '/x' });
  const keys = new ApiKeys(parseSecretKeys(api.secretKey));
  const snapshots = new AppSnapshots(api.redis);
  const known = await readAppByKey(api.db, keys.hashes(app.api_key));
  if (!known) throw new Error('the app has no snapshot');
  await snapshots.write(keys.hash(app.api_key), known);
  expect(await deleteOrganization(parts, owner.organization_id)).toMatchObject({ kind: 'deleted', apps: 1 });
  expect(await untilDelivered(api.db)).toBe(true);
  expect(await snapshots.read(keys.hash(app.api_key))).toBeNull();
  // A slow reader of Postgres that writes its snapshot late.
  await snapshots.write(keys.hash(app.api_key), known);
  expect(await snapshots.read(keys.hash(app.api_key))).toBeNull();
  expect(await readAppByKey(api.db, keys.hashes(app.api_key))).toBeNull();
  expect(await status(owner, `/apps/${app.id}`)).toBe(404);
  expect((await viewer.call('GET', '/me')).body.organizations).toEqual([]);
  expect(await deleteOrganization(parts, owner.organization_id)).toMatchObject({ kind: 'refused' });
  expect((await listAccounts(parts)).map(({ id }) => id)).not.toContain(owner.organization_id);
});

test('no app created during the deletion of its organization survives it', async () => {
  for (let round = 0; round < 10; round++) {
    owner = await api.member();
    const replies = await Promise.all([
      ...Array.from({ length: 4 }, () => owner.call('POST', '/apps', { name: `Late ${round}` })),
      deleteOrganization(parts, owner.organization_id),
      ...Array.from({ length: 4 }, () => owner.call('POST', '/apps', { name: `Later ${round}` })),
    ]);
    for (const reply of replies) if ('status' in reply) expect([201, 400, 403, 404]).toContain(reply.status);
    const living = 'SELECT FROM apps WHERE organization_id = $1 AND deleted_at IS NULL';
    expect(await api.db.query(living, [owner.organization_id])).toEqual([]);
  }
});

test('a password reset ends existing access tokens immediately, but no tokens issued later', async () => {
  owner = await api.member();
  expect(await status(owner)).toBe(200);
  expect(await resetPassword(parts, emailOf(owner), 'correct horse battery')).toEqual({ kind: 'reset' });
  expect(await status(owner)).toBe(401);
  const body = { email: emailOf(owner), password: 'correct horse battery' };
  const { body: pair } = await api.call('', 'POST', '/auth/login', body);
  expect((await api.call(pair.access_token, 'GET', '/me')).status).toBe(200);
});

test('a reset by an administrator whose clock is off by an hour ends all old tokens and no new ones', {
  tags: ['slow'],
}, async () => {
  for (const aheadMs of [-HOUR_MS, HOUR_MS]) {
    owner = await api.member();
    const skewed = { db: api.db, clock: () => systemClock() + aheadMs };
    const body = { email: emailOf(owner), password: 'correct horse battery' };
    await resetPassword(parts, emailOf(owner), body.password);
    const before = (await api.call('', 'POST', '/auth/login', body)).body;
    await resetPassword(skewed, emailOf(owner), body.password);
    expect((await api.call(before.access_token, 'GET', '/me')).status).toBe(401);
    const after = (await api.call('', 'POST', '/auth/login', body)).body;
    expect((await api.call(after.access_token, 'GET', '/me')).status).toBe(200);
  }
});
