/** Names that one person chooses and others read: none hides something, turns the text around it, or adds a line. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let app: { id: string };
beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Named' })).body;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

type Call = readonly [method: string, path: string, body: object];
const hook = { url: 'https://hooks.example.com/', events: ['install.attributed'] };

/** Requests with a name, by the operation; `field` is `name` unless the key says otherwise. */
const named: Readonly<Record<string, (name: string) => Call | Promise<Call>>> = {
  updateOrganization: (name) => ['PATCH', `/organizations/${owner.organization_id}`, { name }],
  createApp: (name) => ['POST', '/apps', { name }],
  updateApp: (name) => ['PATCH', `/apps/${app.id}`, { name }],
  createServerKey: (name) => ['POST', '/keys', { name, scopes: ['links:read'] }],
  createSharedPage: (name) => ['POST', '/shared-pages', { name, campaign: 'summer' }],
  createView: (name) => ['POST', '/views', { name, query: {} }],
  updateView: async (name) => {
    const { id } = (await owner.call('POST', '/views', { name: 'View', query: {} })).body;
    return ['PATCH', `/views/${id}`, { name }];
  },
  createUtmTemplate: (name) => ['POST', '/utm-templates', { name, utm_source: 'mail' }],
  updateUtmTemplate: async (name) => {
    const { id } = (await owner.call('POST', '/utm-templates', { name: `T${Math.random()}`, utm_source: 'x' })).body;
    return ['PATCH', `/utm-templates/${id}`, { name }];
  },
  'createWebhook description': (description) => ['POST', '/webhooks', { ...hook, description }],
  acceptInvitation: async (name) => {
    const invited = { email: `invited-${Math.random()}@example.com`, role: 'viewer' };
    const { token } = (await owner.call('POST', '/invitations', invited)).body;
    return ['POST', '/auth/invitations/accept', { token, name, password: 'seven unrelated heavy words' }];
  },
};
const unfit = [
  'ann@a.test\u202e',
  '\u2067Acme',
  'Acme\u200f',
  'Ac\nme',
  'Ac\rme',
  'Ac\u2028me',
  'Ac\u0085me',
  'Ac\tme',
  'Ac\u001bme',
  'Ac\u200bme',
  'Ac\ufeffme',
];

test.each(Object.entries(named))(
  '%s refuses a name that hides, turns or breaks text, and takes others',
  async (operation, callOf) => {
    const [, field = 'name'] = operation.split(' ');
    const send = async (name: string) => owner.call(...(await callOf(name)));
    for (const name of unfit) {
      const { status, body } = await send(name);
      expect([status, body.error?.details?.field], JSON.stringify(name)).toEqual([400, field]);
      expect(body.error.message).toContain('line breaks');
    }
    const longest = `Ann’s 👩‍👩‍👧 می‌خواهم ${operation.slice(0, 20)}`;
    expect((await send(longest)).status).toBeLessThan(300);
  },
);

test('a name from before stays readable, and can be left as it is', async () => {
  const kept = 'Old\u202e';
  await api.db.execute('UPDATE apps SET name = $2 WHERE id = $1', [app.id, kept]);
  const changed = await owner.call('PATCH', `/apps/${app.id}`, { fallback_url: 'https://example.com/' });
  expect([changed.status, changed.body.name]).toEqual([200, kept]);
});

test('the audit log says of each actor whether it is a person or a server key, whatever the key is called', async () => {
  const boss = await api.member();
  const [{ email } = { email: '' }] = await api.db.query<{ email: string }>('SELECT email FROM users WHERE id = $1', [
    boss.user_id,
  ]);
  const made = { name: email, scopes: ['apps:write'] };
  const { key } = (await boss.call('POST', '/keys', made)).body;
  expect((await api.call(key, 'POST', '/apps', { name: 'By a key' })).status).toBe(201);
  const { data } = (await boss.call('GET', '/audit-log')).body;
  const shown = data.map(({ action, actor_kind, actor_name }: Record<string, string>) => [
    action,
    actor_kind,
    actor_name,
  ]);
  expect(shown).toEqual([
    ['createApp', 'key', email],
    ['createServerKey', 'user', email],
  ]);
});

test('ids of the audit log do not tell how much other organizations change, and pages stay in order', async () => {
  const boss = await api.member();
  for (const n of [1, 2, 3]) {
    await boss.call('POST', '/views', { name: `View ${n}`, query: {} });
    for (let m = 0; m < n; m++) await owner.call('POST', '/views', { name: 'Another', query: {} });
  }
  const page = async (query: string): Promise<{ id: string; target_id: string; at: string }[]> =>
    (await boss.call('GET', `/audit-log${query}`)).body.data;
  const all = await page('');
  const ids = all.map(({ id }) => id);
  expect(new Set(ids).size).toBe(3);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(all.map(({ target_id }) => target_id)).toEqual(
    all
      .map(({ target_id }) => target_id)
      .sort()
      .reverse(),
  );
  const paged = [await page('?limit=1'), await page('?limit=1&offset=1'), await page('?limit=1&offset=2')].flat();
  expect(paged).toEqual(all);
  expect(await page('')).toEqual(all);
});
