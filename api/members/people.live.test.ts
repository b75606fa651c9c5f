import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashPassword } from '#api/auth/password.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { DAY_MS } from '#common/durations.ts';

let api: ApiForTest;
let owner: Member;
let member: Member;
let stranger: Member;

const good = 'seven unrelated heavy words';

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  member = await api.member('member', owner.organization_id);
  stranger = await api.member();
});
afterAll(() => api.stop());

async function emailOf(userId: string): Promise<string> {
  const [row] = await api.db.query<{ email: string }>('SELECT email FROM users WHERE id = $1', [userId]);
  return row?.email ?? '';
}

let invited = 0;
const newAddress = () => `new-${invited++}@example.com`;

async function invite(email: string, role = 'member', by = owner): Promise<{ id: string; token: string; url: string }> {
  const { status, body } = await by.call('POST', '/invitations', { email, role });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

const accept = (token: string, password = good) =>
  api.call('', 'POST', '/auth/invitations/accept', { token, name: 'Grace', password });

async function roleOf(userId: string, organizationId = owner.organization_id): Promise<string | undefined> {
  const sql = 'SELECT role FROM memberships WHERE user_id = $1 AND organization_id = $2';
  return (await api.db.query<{ role: string }>(sql, [userId, organizationId]))[0]?.role;
}

test('an invited person without an account gets one with the role, and can log in', async () => {
  const email = newAddress();
  const { token, url } = await invite(email.toUpperCase(), 'viewer');
  expect(url).toMatch(new RegExp(`/invitation#${token}$`));
  const shown = await api.call('', 'POST', '/auth/invitations/look-up', { token });
  const { organization_id } = owner;
  expect(shown.body).toMatchObject({ organization_id, email, role: 'viewer', has_account: false });
  const { status, body } = await accept(token);
  expect([status, body.organization_id, body.role]).toEqual([201, owner.organization_id, 'viewer']);
  const login = await api.call('', 'POST', '/auth/login', { email, password: good });
  expect(login.status).toBe(200);
  expect((await api.call(login.body.access_token, 'GET', '/links')).status).toBe(200);
});

test('a token works once, however many use it at once', async () => {
  const { token } = await invite(newAddress());
  const statuses = (await Promise.all(Array.from({ length: 5 }, () => accept(token)))).map(({ status }) => status);
  expect(statuses.filter((status) => status === 201)).toHaveLength(1);
  expect((await accept(token)).status).toBe(404);
});

test('an invitation expires after 7 days, when it is withdrawn or replaced, and when its inviter is no longer an owner', async () => {
  const [old, withdrawn] = [await invite(newAddress()), await invite(newAddress())];
  expect((await owner.call('DELETE', `/invitations/${withdrawn.id}`)).status).toBe(200);
  expect((await accept(withdrawn.token)).status).toBe(404);
  const email = newAddress();
  const [first, second] = [await invite(email), await invite(email)];
  expect((await accept(first.token)).status).toBe(404);
  expect((await accept(second.token)).status).toBe(201);
  const former = await api.member('owner', owner.organization_id);
  const byFormer = await invite(newAddress(), 'owner', former);
  await owner.call('PATCH', `/members/${former.user_id}`, { role: 'member' });
  expect((await accept(byFormer.token)).status).toBe(404);
  api.advance(7 * DAY_MS + 1);
  expect((await accept(old.token)).status).toBe(404);
  api.advance(-7 * DAY_MS - 1);
});

test('a person with an account accepts with it, and no one else can', async () => {
  const { token } = await invite(await emailOf(stranger.user_id));
  const refused = await accept(token);
  expect([refused.status, refused.body.error.details.reason]).toEqual([403, 'account_exists']);
  const other = await member.call('POST', '/me/invitations', { token });
  expect([other.status, other.body.error.details.reason]).toEqual([403, 'other_account']);
  const { status, body } = await stranger.call('POST', '/me/invitations', { token });
  expect([status, body.role]).toEqual([200, 'member']);
  expect(await roleOf(stranger.user_id)).toBe('member');
  await owner.call('DELETE', `/members/${stranger.user_id}`);
});

test('a token is stored only as a hash, and a password that is easy to guess is rejected', async () => {
  const { token } = await invite(newAddress());
  const rows = await api.db.query<{ row: string }>('SELECT row_to_json(i)::text AS row FROM invitations i');
  expect(JSON.stringify(rows)).not.toContain(token);
  const { status, body } = await accept(token, 'password1234');
  expect([status, body.error.details.field]).toEqual([400, 'password']);
});

test('only owners invite, list and withdraw', async () => {
  const { id } = await invite(newAddress());
  expect((await member.call('POST', '/invitations', { email: newAddress(), role: 'viewer' })).status).toBe(403);
  expect((await member.call('GET', '/invitations')).status).toBe(403);
  expect((await stranger.call('DELETE', `/invitations/${id}`)).status).toBe(403);
  expect((await owner.call('DELETE', '/invitations/inv_unknown')).status).toBe(404);
  const { data } = (await owner.call('GET', '/invitations')).body;
  expect(data.map((one: { id: string }) => one.id)).toContain(id);
  expect(JSON.stringify(data)).not.toContain('token');
  expect(
    (await owner.call('POST', '/invitations', { email: await emailOf(member.user_id), role: 'viewer' })).status,
  ).toBe(400);
});

test('owners change roles and remove members; others may only leave', async () => {
  const one = await api.member('member', owner.organization_id);
  expect((await one.call('PATCH', `/members/${one.user_id}`, { role: 'owner' })).status).toBe(403);
  expect((await owner.call('PATCH', `/members/${one.user_id}`, { role: 'viewer' })).status).toBe(200);
  expect((await one.call('POST', '/apps', { name: 'x' })).status).toBe(403);
  await owner.call('PATCH', `/members/${one.user_id}`, { role: 'member' });
  expect((await one.call('DELETE', `/members/${member.user_id}`)).status).toBe(403);
  expect((await one.call('DELETE', `/members/${one.user_id}`)).status).toBe(200);
  expect(await roleOf(one.user_id)).toBeUndefined();
  expect((await owner.call('DELETE', `/members/${one.user_id}`)).status).toBe(404);
  const foreign = `/members/${stranger.user_id}?organization_id=${stranger.organization_id}`;
  expect((await owner.call('DELETE', foreign)).status).toBe(403);
});

test('a viewer leaves the organization, and removes no one else', async () => {
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await viewer.call('DELETE', `/members/${member.user_id}`)).status).toBe(403);
  expect(await roleOf(member.user_id)).toBe('member');
  expect((await viewer.call('DELETE', `/members/${viewer.user_id}`)).status).toBe(200);
  expect(await roleOf(viewer.user_id)).toBeUndefined();
});

test('the last owner can neither leave nor give up the role, even if two owners try concurrently', async () => {
  const lone = await api.member();
  for (const reply of [
    await lone.call('DELETE', `/members/${lone.user_id}`),
    await lone.call('PATCH', `/members/${lone.user_id}`, { role: 'viewer' }),
  ])
    expect([reply.status, reply.body.error.details.field]).toEqual([400, 'user_id']);
  const second = await api.member('owner', lone.organization_id);
  const left = await Promise.all([lone, second].map((one) => one.call('DELETE', `/members/${one.user_id}`)));
  expect(left.map(({ status }) => status).sort()).toEqual([200, 400]);
  // A disabled owner cannot log in, and so does not count.
  const [a, b] = [await api.member(), null];
  const disabled = await api.member('owner', a.organization_id);
  await api.db.execute('UPDATE users SET disabled_at = now() WHERE id = $1', [disabled.user_id]);
  expect([(await a.call('DELETE', `/members/${a.user_id}`)).status, b]).toEqual([400, null]);
});

test('an owner renames the organization', async () => {
  const path = `/organizations/${owner.organization_id}`;
  expect((await owner.call('PATCH', path, { name: ' Engines ' })).body).toEqual({
    id: owner.organization_id,
    name: 'Engines',
  });
  expect((await owner.call('GET', '/me')).body.organizations[0].name).toBe('Engines');
  expect((await member.call('PATCH', path, { name: 'Mine' })).status).toBe(403);
  expect((await stranger.call('PATCH', path, { name: 'Mine' })).status).toBe(403);
  expect((await owner.call('PATCH', '/organizations/org_unknown', { name: 'x' })).status).toBe(404);
});

test('a password change ends every other login, and starts a new one for its caller', async () => {
  const one = await api.member('member', owner.organization_id);
  const email = await emailOf(one.user_id);
  const old = 'correct horse battery staple';
  await api.db.execute('UPDATE users SET password_hash = $2 WHERE id = $1', [one.user_id, await hashPassword(old)]);
  const login = async (password: string) => api.call('', 'POST', '/auth/login', { email, password });
  const [mine, other] = [(await login(old)).body, (await login(old)).body];
  const change = (body: object) => api.call(mine.access_token, 'POST', '/me/password', body);
  const wrong = await change({ present_password: 'wrong', new_password: good });
  expect([wrong.status, wrong.body.error.details.field]).toEqual([400, 'present_password']);
  const weak = await change({ present_password: old, new_password: 'password1234' });
  expect([weak.status, weak.body.error.details.field]).toEqual([400, 'new_password']);
  const { status, body } = await change({ present_password: old, new_password: good });
  expect([status, body.changed]).toEqual([200, true]);
  for (const token of [mine.access_token, other.access_token])
    expect((await api.call(token, 'GET', '/me')).status).toBe(401);
  expect((await api.call('', 'POST', '/auth/refresh', { refresh_token: other.refresh_token })).status).toBe(401);
  expect((await api.call(body.tokens.access_token, 'GET', '/me')).status).toBe(200);
  expect([(await login(old)).status, (await login(good)).status]).toEqual([401, 200]);
});

test('the audit log tells only owners who changed what, when and from where, and never contains values', async () => {
  const { body: app } = await owner.call('POST', '/apps', { name: 'Audited', fallback_url: 'https://secret.example/' });
  const key = await owner.call('POST', '/keys', { name: 'Robot', scopes: ['links:write'] });
  const link = await api.call(key.body.key, 'POST', '/links', { app_id: app.id, path: '/a' });
  const of = async (query: string) => (await owner.call('GET', `/audit-log?${query}`)).body.data;
  const [made] = await of(`target_id=${app.id}`);
  expect(made).toMatchObject({
    ...{ action: 'createApp', actor_id: owner.user_id, actor_name: await emailOf(owner.user_id) },
    ...{ organization_id: owner.organization_id, fields: ['name', 'fallback_url'] },
  });
  expect(made.address).not.toBe('');
  const [byKey] = await of(`target_id=${link.body.id}`);
  expect([byKey.action, byKey.actor_name]).toEqual(['createLink', 'Robot']);
  await owner.call('DELETE', `/keys/${key.body.id}`);
  expect((await of('action=deleteServerKey'))[0].target_id).toBe(key.body.id);
  const { token } = await invite(newAddress());
  const joined = await accept(token);
  expect((await of('action=acceptInvitation'))[0].actor_id).toBe(joined.body.user_id);
  const all = JSON.stringify(await of('limit=100'));
  for (const value of ['secret.example', token, key.body.key]) expect(all).not.toContain(value);
  expect((await member.call('GET', '/audit-log')).status).toBe(403);
  expect(
    (await stranger.call('GET', '/audit-log')).body.data.map((row: { actor_id: string }) => row.actor_id),
  ).not.toContain(owner.user_id);
  expect((await stranger.call('GET', `/audit-log?organization_id=${owner.organization_id}`)).status).toBe(403);
  const refused = await member.call('PATCH', `/members/${owner.user_id}`, { role: 'viewer' });
  expect([refused.status, await of(`actor_id=${member.user_id}&action=updateMember`)]).toEqual([403, []]);
});

test('the history of a link includes bulk changes, only in the organization of the links', async () => {
  const boss = await api.member();
  const other = await api.member();
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'owner')`, [
    boss.user_id,
    other.organization_id,
  ]);
  const app = (await boss.call('POST', '/apps', { name: 'Many', organization_id: boss.organization_id })).body;
  const links = ['/a', '/b', '/c'].map((path) => ({ app_id: app.id, path }));
  const { results } = (await boss.call('POST', '/links/bulk', { links })).body;
  const [first, second, third] = results.map(({ link }: { link: { id: string } }) => link.id);
  await boss.call('PATCH', '/links/bulk', { ids: [first, second, 'lnk_unknown'], changes: { archived: true } });
  await boss.call('DELETE', '/links/bulk', { filter: { app_id: app.id, archived: true } });
  const actions = async (id: string, by = boss) =>
    (await by.call('GET', `/audit-log?target_id=${id}`)).body.data.map(({ action }: { action: string }) => action);
  expect(await actions(first)).toEqual(['bulkDeleteLinks', 'bulkUpdateLinks', 'bulkCreateLinks']);
  expect(await actions(third)).toEqual(['bulkCreateLinks']);
  expect(await actions('lnk_unknown')).toEqual([]);
  expect(await actions(second, other)).toEqual([]);
  const all = async (by: Member) => (await by.call('GET', '/audit-log?action=bulkUpdateLinks')).body.data;
  expect(await all(other)).toEqual([]);
  expect(await all(boss)).toEqual([
    expect.objectContaining({ organization_id: boss.organization_id, target_id: '', fields: ['ids', 'archived'] }),
  ]);
});

test('the audit log is filtered by several actions and by time', async () => {
  const boss = await api.member();
  const app = (await boss.call('POST', '/apps', { name: 'Filtered' })).body;
  await boss.call('PATCH', `/apps/${app.id}`, { name: 'Renamed' });
  await boss.call('DELETE', `/apps/${app.id}`);
  const actions = async (query: string) =>
    (await boss.call('GET', `/audit-log?${query}`)).body.data.map(({ action }: { action: string }) => action);
  expect(await actions('action=createApp,deleteApp')).toEqual(['deleteApp', 'createApp']);
  const sql = `UPDATE audit_log SET at = at - interval '2 days' WHERE organization_id = $1 AND action = 'createApp'`;
  await api.db.execute(sql, [boss.organization_id]);
  const yesterday = new Date(Date.now() - DAY_MS).toISOString();
  expect(await actions(`start=${yesterday}`)).toEqual(['deleteApp', 'updateApp']);
  expect(await actions(`end=${yesterday}`)).toEqual(['createApp']);
  expect((await boss.call('GET', '/audit-log?start=yesterday')).status).toBe(400);
});

test('an action that no change has is a 400 that names it', async () => {
  for (const action of ['createLinks', 'createApp,', 'createApp,listLinks']) {
    const reply = await owner.call('GET', `/audit-log?action=${action}`);
    expect([reply.status, reply.body.error.code, reply.body.error.details.field]).toEqual([
      400,
      'VALIDATION_ERROR',
      'action',
    ]);
  }
  expect((await owner.call('GET', '/audit-log?action=createApp,%20createLink')).status).toBe(200);
});

test('rows of the audit log are deleted after a year, and not before', async () => {
  const insert = `INSERT INTO audit_log (organization_id, at, stored_at, actor_id, actor_name, action, target_id, fields, address, request_id)
    VALUES ('org_old', now() - $1::interval, now() - $1::interval, 'usr_x', '', 'x', '', '{}', '', '')`;
  for (const age of ['366 days', '363 days']) await api.db.execute(insert, [age]);
  await api.db.query('SELECT signpost_trim_audit_log(100)', []);
  const left = await api.db.query('SELECT FROM audit_log WHERE organization_id = $1', ['org_old']);
  expect(left).toHaveLength(1);
});

test('a session that is limited to an organization sees only that one, until the limit or the membership ends', async () => {
  const person = await api.member();
  const second = await api.member();
  const secret = 'correct horse battery staple';
  await api.db.execute('UPDATE users SET password_hash = $2 WHERE id = $1', [
    person.user_id,
    await hashPassword(secret),
  ]);
  await api.db.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'viewer')`, [
    person.user_id,
    second.organization_id,
  ]);
  const ownPage = { 'Sec-Fetch-Site': 'same-origin', 'X-Signpost-Session': '1' };
  const send = async (method: string, path: string, headers: Record<string, string>, body?: object) => {
    const more = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(api.url + path, {
      method,
      headers: { 'X-Forwarded-Proto': 'https', 'Content-Type': 'application/json', ...headers },
      ...more,
    });
    return { status: answer.status, cookie: answer.headers.get('set-cookie') ?? '', body: await answer.json() };
  };
  const loggedIn = async () => {
    const login = { email: await emailOf(person.user_id), password: secret };
    const [pair = ''] = (await send('POST', '/session', ownPage, login)).cookie.split(';');
    return { ...ownPage, Cookie: pair };
  };
  const [limited, free] = [await loggedIn(), await loggedIn()];
  const choose = (organization_id: string | null, headers: Record<string, string> = limited) =>
    send('PUT', '/session/organization', headers, { organization_id });
  const seenBy = async (headers: Record<string, string>) => {
    const { data } = (await send('GET', '/members', headers)).body as { data: { organization_id: string }[] };
    return [...new Set(data.map(({ organization_id }) => organization_id))].sort();
  };
  const both = [person.organization_id, second.organization_id].sort();
  expect(await seenBy(limited)).toEqual(both);
  expect((await choose(owner.organization_id)).status).toBe(403);
  expect((await choose('org_unknown')).status).toBe(403);
  const { 'X-Signpost-Session': _, ...withoutHeader } = limited;
  expect((await choose(second.organization_id, withoutHeader)).status).toBe(401);
  expect((await person.call('PUT', '/session/organization', { organization_id: null })).status).toBe(404);
  expect((await choose(second.organization_id)).status).toBe(200);
  expect([await seenBy(limited), await seenBy(free)]).toEqual([[second.organization_id], both]);
  const meOf = async (headers: Record<string, string>) =>
    (await send('GET', '/me', headers)).body as { organization_id: string | null; organizations: readonly unknown[] };
  const me = await meOf(limited);
  expect([me.organization_id, me.organizations.length]).toEqual([second.organization_id, 2]);
  const passwords = { present_password: secret, new_password: `${secret} and two more` };
  const changed = await send('POST', '/me/password', limited, passwords);
  limited.Cookie = changed.cookie.split(';')[0] ?? '';
  expect([changed.status, (await meOf(limited)).organization_id]).toEqual([200, second.organization_id]);
  expect(await seenBy(limited)).toEqual([second.organization_id]);
  // The person is a viewer there.
  const app = { name: 'No', organization_id: person.organization_id };
  expect((await send('POST', '/apps', limited, app)).status).toBe(403);
  expect((await choose(null)).status).toBe(200);
  expect(await seenBy(limited)).toEqual(both);
  await choose(second.organization_id);
  await second.call('DELETE', `/members/${person.user_id}`);
  expect(await seenBy(limited)).toEqual([person.organization_id]);
  expect((await meOf(limited)).organization_id).toBeNull();
});
