import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ApiDeps } from '#api/deps.ts';
import { apiRoutes } from '#api/routes.ts';
import { type ApiForTest, apiForTest, type Member, type Reply } from '#api/testing/running-api.ts';
import { isKey } from '#common/api-key.ts';
import { type KeyScope, keyScopes, type Route } from '#common/http/route.ts';
import { newId } from '#common/ids.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let app: { id: string; api_key: string };
let other: { id: string };
let link: { id: string };
let otherLink: { id: string };
let webhook: { id: string };
let postback: { id: string };

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = [await api.member(), await api.member()];
  [app, other] = [await make('/apps', { name: 'Keys' }), await make('/apps', { name: 'Other' })];
  link = await make('/links', { app_id: app.id, path: '/x', tags: ['t'], external_id: 'known' });
  webhook = await make('/webhooks', newWebhook());
  postback = await make('/postbacks', newPostback());
  otherLink = await make('/links', { app_id: other.id, path: '/other', tags: ['t'] });
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const newPostback = () => ({
  url: 'https://network.example/?click={click_id}',
  events: ['install.attributed'],
  organization_id: owner.organization_id,
});

const newWebhook = () => ({
  url: 'https://hooks.example.com/',
  events: ['link.created'],
  organization_id: owner.organization_id,
});

async function make(path: string, body: object, member = owner): Promise<Reply['body']> {
  const reply = await member.call('POST', path, body);
  expect([reply.status, reply.body.error]).toEqual([201, undefined]);
  return reply.body;
}

async function newKey(scopes: readonly KeyScope[], more: object = {}, member = owner) {
  const made = await make('/keys', { name: 'Backend', scopes, ...more }, member);
  return {
    ...made,
    call: (method: string, path: string, body?: unknown) => api.call(made.key, method, path, body),
  } as {
    id: string;
    key: string;
    call(method: string, path: string, body?: unknown): Promise<Reply>;
  };
}

let templates = 0;
const aTemplate = () => ({ app_id: app.id, name: `Template ${templates++}`, utm_source: 'newsletter' });
const newTemplate = async () => `/utm-templates/${(await make('/utm-templates', aTemplate())).id}`;
const aView = { name: 'View', query: {} };
const without = (scope: KeyScope) =>
  keyScopes.filter((one) => one !== scope && one !== scope.replace(':read', ':write'));
const userRoutes = apiRoutes.filter((route): route is Route<ApiDeps> => route.caller === 'user');
async function newImport(): Promise<string> {
  // Unfinished imports are limited.
  await api.db.execute('DELETE FROM imports');
  return (await make('/imports', { app_id: app.id, source: 'csv' })).id;
}

const nameOf = ({ method, path }: Route<ApiDeps>) => `${method} ${path}`;

/**
 * A valid request for each endpoint that a key may call, on `app` and `link` or on new objects, and the status it gets.
 */
const requests: Readonly<Record<string, () => Promise<[path: string, status: number, body?: object]>>> = {
  'GET /links': async () => [`/links?app_id=${app.id}`, 200],
  'GET /links/lookup': async () => [`/links/lookup?app_id=${app.id}&external_id=known`, 200],
  'GET /links/availability': async () => [`/links/availability?app_id=${app.id}&short_code=free`, 200],
  'GET /tags': async () => [`/tags?app_id=${app.id}`, 200],
  'GET /apps/{app_id}/ad-postbacks': async () => [`/apps/${app.id}/ad-postbacks`, 200],
  'GET /orphan-visits': async () => [`/orphan-visits?app_id=${app.id}`, 200],
  'POST /links': async () => ['/links', 201, { app_id: app.id, path: '/k' }],
  'POST /links/bulk': async () => ['/links/bulk', 200, { links: [{ app_id: app.id, path: '/k' }] }],
  'PATCH /links/bulk': async () => ['/links/bulk', 200, { filter: { app_id: app.id }, changes: { title: 'K' } }],
  'DELETE /links/bulk': async () => ['/links/bulk', 200, { filter: { app_id: app.id, campaign: 'none' } }],
  'PUT /links/by-external-id/{app_id}/{external_id}': async () => [
    `/links/by-external-id/${app.id}/${newId('lnk', 1)}`,
    201,
    { path: '/k' },
  ],
  'GET /links/{id}': async () => [`/links/${link.id}`, 200],
  'PATCH /links/{id}': async () => [`/links/${link.id}`, 200, { title: 'By a key' }],
  'DELETE /links/{id}': async () => [`/links/${(await make('/links', { app_id: app.id, path: '/d' })).id}`, 200],
  'PUT /links/{link_id}/password': async () => [`/links/${link.id}/password`, 200, { password: 'by a key' }],
  'DELETE /links/{link_id}/password': async () => [`/links/${link.id}/password`, 200],
  'GET /links/{id}/qr': async () => [`/links/${link.id}/qr`, 200],
  'GET /links/{id}/stats': async () => [`/links/${link.id}/stats`, 200],
  'POST /links/{id}/explain': async () => [`/links/${link.id}/explain`, 200, { user_agent: 'curl/8' }],
  // There is no log here; a caller without access is rejected earlier.
  'GET /live': async () => [`/live?app_id=${app.id}&seconds=0`, 500],
  'GET /imports': async () => [`/imports?app_id=${app.id}`, 200],
  'POST /imports': async () => ['/imports', 201, { app_id: app.id, source: 'csv' }],
  'GET /imports/{import_id}': async () => [`/imports/${await newImport()}`, 200],
  // Without a body the upload fails; what matters is that the key is accepted.
  'PUT /imports/{import_id}/parts/{number}': async () => [`/imports/${await newImport()}/parts/1`, 400],
  'POST /imports/{import_id}/check': async () => [`/imports/${await newImport()}/check`, 400, {}],
  'GET /imports/{import_id}/rows': async () => [`/imports/${await newImport()}/rows`, 200],
  'POST /imports/{import_id}/confirm': async () => [`/imports/${await newImport()}/confirm`, 400, {}],
  'POST /imports/{import_id}/undo': async () => [`/imports/${await newImport()}/undo`, 400, {}],
  'DELETE /imports/{import_id}': async () => [`/imports/${await newImport()}`, 200],
  'GET /apps': async () => [`/apps?organization_id=${owner.organization_id}`, 200],
  'POST /apps': async () => ['/apps', 201, { name: 'New', organization_id: owner.organization_id }],
  'GET /apps/{id}': async () => [`/apps/${app.id}`, 200],
  'GET /apps/{app_id}/migration': async () => [`/apps/${app.id}/migration`, 200],
  'POST /apps/{app_id}/check-associations': async () => [`/apps/${app.id}/check-associations`, 200],
  'PATCH /apps/{id}': async () => [`/apps/${app.id}`, 200, { name: 'Renamed' }],
  'DELETE /apps/{id}': async () => [`/apps/${(await make('/apps', { name: 'Gone' })).id}`, 200],
  'GET /analytics/overview': async () => [`/analytics/overview?app_id=${app.id}`, 200],
  'GET /analytics/timeseries': async () => [`/analytics/timeseries?app_id=${app.id}`, 200],
  'GET /analytics/top-links': async () => [`/analytics/top-links?app_id=${app.id}`, 200],
  'GET /analytics/top-campaigns': async () => [`/analytics/top-campaigns?app_id=${app.id}`, 200],
  'GET /analytics/match-quality': async () => [`/analytics/match-quality?app_id=${app.id}`, 200],
  'GET /analytics/breakdown': async () => [`/analytics/breakdown?by=tag&app_id=${app.id}`, 200],
  'GET /analytics/retention': async () => [`/analytics/retention?app_id=${app.id}`, 200],
  'GET /analytics/ltv': async () => [`/analytics/ltv?app_id=${app.id}`, 200],
  'GET /analytics/funnel': async () => [`/analytics/funnel?app_id=${app.id}`, 200],
  'GET /costs': async () => [`/costs?organization_id=${owner.organization_id}`, 200],
  'POST /costs': async () => [
    '/costs',
    200,
    {
      organization_id: owner.organization_id,
      costs: [{ campaign: 'c', day: '2026-11-20', amount: '1', currency: 'EUR' }],
    },
  ],
  'GET /views': async () => [`/views?organization_id=${owner.organization_id}`, 200],
  'POST /views': async () => ['/views', 201, { organization_id: owner.organization_id, name: 'By a key', query: {} }],
  'GET /views/{view_id}': async () => [`/views/${(await make('/views', aView)).id}`, 200],
  'PATCH /views/{view_id}': async () => [`/views/${(await make('/views', aView)).id}`, 200, { name: 'Renamed' }],
  'DELETE /views/{view_id}': async () => [`/views/${(await make('/views', aView)).id}`, 200],
  'GET /utm-templates': async () => [`/utm-templates?app_id=${app.id}`, 200],
  'POST /utm-templates': async () => ['/utm-templates', 201, aTemplate()],
  'GET /utm-templates/{template_id}': async () => [await newTemplate(), 200],
  'PATCH /utm-templates/{template_id}': async () => [await newTemplate(), 200, { utm_medium: 'email' }],
  'DELETE /utm-templates/{template_id}': async () => [await newTemplate(), 200],
  'GET /analytics/page': async () => [`/analytics/page?app_id=${app.id}`, 200],
  'GET /analytics/export': async () => [`/analytics/export?organization_id=${owner.organization_id}`, 200],
  'GET /matches': async () => [`/matches?app_id=${app.id}`, 200],
  'GET /postbacks': async () => [`/postbacks?organization_id=${owner.organization_id}`, 200],
  'POST /postbacks': async () => ['/postbacks', 201, newPostback()],
  'GET /postbacks/{postback_id}': async () => [`/postbacks/${postback.id}`, 200],
  'PATCH /postbacks/{postback_id}': async () => [`/postbacks/${postback.id}`, 200, { description: 'By a key' }],
  'DELETE /postbacks/{postback_id}': async () => [`/postbacks/${(await make('/postbacks', newPostback())).id}`, 200],
  'POST /postbacks/{postback_id}/test': async () => [`/postbacks/${postback.id}/test`, 202],
  'POST /postbacks/{postback_id}/replay': async () => [
    `/postbacks/${postback.id}/replay`,
    202,
    { from: '2026-01-01T00:00:00Z' },
  ],
  'GET /postbacks/{postback_id}/attempts': async () => [`/postbacks/${postback.id}/attempts`, 200],
  'GET /webhooks': async () => [`/webhooks?organization_id=${owner.organization_id}`, 200],
  'POST /webhooks': async () => ['/webhooks', 201, newWebhook()],
  'GET /webhooks/{webhook_id}': async () => [`/webhooks/${webhook.id}`, 200],
  'PATCH /webhooks/{webhook_id}': async () => [`/webhooks/${webhook.id}`, 200, { description: 'By a key' }],
  'DELETE /webhooks/{webhook_id}': async () => [`/webhooks/${(await make('/webhooks', newWebhook())).id}`, 200],
  'POST /webhooks/{webhook_id}/rotate-secret': async () => [`/webhooks/${webhook.id}/rotate-secret`, 200, {}],
  'POST /webhooks/{webhook_id}/test': async () => [`/webhooks/${webhook.id}/test`, 202],
  'GET /webhooks/{webhook_id}/messages': async () => [`/webhooks/${webhook.id}/messages`, 200],
  'GET /webhooks/{webhook_id}/attempts': async () => [`/webhooks/${webhook.id}/attempts`, 200],
  'POST /webhooks/{webhook_id}/replay': async () => [
    `/webhooks/${webhook.id}/replay`,
    202,
    { from: '2026-01-15T09:30:00Z' },
  ],
  // There is no such object; a caller without access gets the same response.
  'GET /matches/{match_id}': async () => [`/matches/${newId('mat', 1)}`, 404],
};

test('every endpoint for users states the scope that a server key needs, or that keys are not accepted', () => {
  expect(userRoutes.filter((route) => route.scope === undefined).map(nameOf)).toEqual([]);
  expect(
    userRoutes
      .filter((route) => route.scope !== null)
      .map(nameOf)
      .sort(),
  ).toEqual(Object.keys(requests).sort());
});

test('no server key can access an account, a session, a key or a member', async () => {
  const { call } = await newKey(keyScopes);
  for (const route of userRoutes.filter(({ scope }) => scope === null)) {
    const reply = await call(
      route.method,
      route.path.replace(/\{\w+\}/, app.id),
      route.method === 'GET' ? undefined : {},
    );
    expect([reply.status, reply.body.error.details?.reason], nameOf(route)).toEqual([403, 'server_key_not_accepted']);
  }
});

test('an endpoint is open to a key with its scope, and closed to one without it, of another organization, expired or deleted', {
  tags: ['slow'],
}, async () => {
  const ending = await newKey(keyScopes, { expires_at: new Date(Date.now() + 3_600_000).toISOString() });
  await api.db.execute('UPDATE server_keys SET expires_at = $2 WHERE id = $1', [ending.id, new Date(Date.now() - 1)]);
  const deleted = await newKey(keyScopes);
  expect((await owner.call('DELETE', `/keys/${deleted.id}`)).status).toBe(200);
  const foreign = await newKey(keyScopes, {}, stranger);
  // One key for each list of scopes, because an organization may have only a hundred.
  const keys = new Map<string, Awaited<ReturnType<typeof newKey>>>();
  const keyWith = async (scopes: readonly KeyScope[]) => {
    const key = keys.get(scopes.join()) ?? (await newKey(scopes));
    keys.set(scopes.join(), key);
    return key;
  };
  for (const route of userRoutes) {
    const { scope, method } = route;
    const request = requests[nameOf(route)];
    if (!scope || !request) continue;
    const ask = async (call: typeof foreign.call) => {
      const [path, , body] = await request();
      return call(method, path, body);
    };
    const [, wanted] = await request();
    const name = nameOf(route);
    expect((await ask((await keyWith([scope])).call)).status, name).toBe(wanted);
    const lacking = await ask((await keyWith(without(scope))).call);
    expect([lacking.status, lacking.body.error.details?.reason], name).toEqual([403, 'scope_missing']);
    const refused = await ask(foreign.call);
    // A batch rejects its links individually.
    const first = refused.body.results?.[0]?.error.code ?? refused.status;
    expect(first, name).toBe(wanted === 404 ? 404 : name === 'POST /links/bulk' ? 'FORBIDDEN' : 403);
    for (const dead of [ending, deleted]) expect((await ask(dead.call)).status, name).toBe(401);
  }
});

test('the key is shown once and stored as a hash', async () => {
  const made = await make('/keys', { name: ' Shop ', scopes: ['links:read'], expires_at: '2100-01-01T00:00:00Z' });
  expect(isKey('sk_', made.key)).toBe(true);
  expect(made).toMatchObject({
    organization_id: owner.organization_id,
    name: 'Shop',
    scopes: ['links:read'],
    app_ids: null,
    created_by: owner.user_id,
    expires_at: '2100-01-01T00:00:00.000Z',
    last_used_at: null,
  });
  const listed = await owner.call('GET', '/keys?limit=100');
  expect(listed.body.data[0].id).toBe(made.id);
  expect(JSON.stringify(listed.body)).not.toContain(made.key);
  const [row] = await api.db.query<object>('SELECT to_jsonb(k) AS stored FROM server_keys k WHERE id = $1', [made.id]);
  expect(JSON.stringify(row)).not.toContain(made.key.slice(3));
});

test('only owners create, list and delete keys', async () => {
  const { id } = await newKey(['links:read']);
  const body = { name: 'x', scopes: ['links:read'], organization_id: owner.organization_id };
  for (const role of ['member', 'viewer'] as const) {
    const member = await api.member(role, owner.organization_id);
    expect((await member.call('POST', '/keys', body)).status, role).toBe(403);
    expect((await member.call('GET', '/keys')).status, role).toBe(403);
    expect((await member.call('DELETE', `/keys/${id}`)).status, role).toBe(403);
  }
  expect((await stranger.call('POST', '/keys', body)).status).toBe(403);
  expect((await stranger.call('GET', `/keys?organization_id=${owner.organization_id}`)).status).toBe(403);
  expect((await stranger.call('DELETE', `/keys/${id}`)).status).toBe(403);
  expect((await stranger.call('GET', '/keys')).body.data.some((one: { id: string }) => one.id === id)).toBe(false);
  for (const unknown of [newId('key', 1), 'x', app.id])
    expect((await owner.call('DELETE', `/keys/${unknown}`)).status).toBe(404);
  expect((await owner.call('GET', `/keys?organization_id=${newId('org', 1)}`)).status).toBe(404);
});

test.each([
  ['no scopes', { scopes: [] }, 'scopes'],
  ['an unknown scope', { scopes: ['links:all'] }, 'scopes[0]'],
  ['a scope twice', { scopes: ['links:read', 'links:read'] }, 'scopes'],
  ['an empty name', { name: ' ' }, 'name'],
  ['a name that shows nothing', { name: '\u200b\u3164' }, 'name'],
  ['an end in the past', { expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
  ['no apps', { app_ids: [] }, 'app_ids'],
  ['an unknown field', { role: 'owner' }, 'role'],
])('%s is a 400 that names the field', async (_, fields, field) => {
  const reply = await owner.call('POST', '/keys', { name: 'x', scopes: ['links:read'], ...fields });
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('a key can be limited only to apps of its own organization', async () => {
  const foreign = await make('/apps', { name: 'Foreign' }, stranger);
  for (const [id, status] of [[foreign.id, 403] as const, [newId('app', 1), 404] as const]) {
    const reply = await owner.call('POST', '/keys', { name: 'x', scopes: ['apps:read'], app_ids: [app.id, id] });
    expect(reply.status).toBe(status);
  }
});

test('a key that is limited to one app sees nothing of the others and changes nothing there', async () => {
  const { call } = await newKey(keyScopes, { app_ids: [app.id] });
  const ids = (reply: Reply) => [
    ...new Set(reply.body.data.map((one: { app_id?: string; id: string }) => one.app_id ?? one.id)),
  ];
  expect(ids(await call('GET', '/apps'))).toEqual([app.id]);
  for (const query of ['', '?tag=t', '?search=x', '?search=other', '?sort=clicks', '?archived=false']) {
    const { body } = await call('GET', `/links${query}`);
    expect(
      ids({ body } as Reply).filter((id) => id !== app.id),
      query,
    ).toEqual([]);
    expect(body.pagination.total, query).toBe(
      (await call('GET', `/links${query}${query ? '&' : '?'}app_id=${app.id}`)).body.pagination.total,
    );
  }
  for (const [method, path, body] of [
    ['GET', `/apps/${other.id}`],
    ['PATCH', `/apps/${other.id}`, { name: 'Taken' }],
    ['DELETE', `/apps/${other.id}`],
    ['POST', '/apps', { name: 'More' }],
    ['GET', `/links?app_id=${other.id}`],
    ['POST', '/links', { app_id: other.id, path: '/y' }],
    ['GET', `/links/${otherLink.id}`],
    ['PATCH', `/links/${otherLink.id}`, { title: 'Taken' }],
    ['DELETE', `/links/${otherLink.id}`],
    ['GET', `/links/${otherLink.id}/stats`],
    ['GET', `/links/${otherLink.id}/qr`],
    ['GET', `/analytics/overview?app_id=${other.id}`],
    ['GET', `/analytics/overview?link_id=${otherLink.id}`],
    ['GET', `/matches?app_id=${other.id}`],
  ] as const) {
    expect((await call(method, path, body)).status, `${method} ${path}`).toBe(403);
  }
  expect((await owner.call('GET', `/apps/${other.id}`)).body.name).toBe('Other');
});

test('the statistics of a key that is limited to one app contain only that app, whatever it requests', async () => {
  for (const [app_id, link_id, clicks] of [
    [app.id, link.id, 2],
    [other.id, otherLink.id, 5],
  ] as const) {
    for (let n = 0; n < clicks; n++) {
      await api.clickhouse.command(
        `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time)
         VALUES ({click_id:String}, {organization_id:String}, {app_id:String}, {link_id:String}, now64(3))`,
        { click_id: newId('clk', Date.now()), organization_id: owner.organization_id, app_id, link_id },
      );
    }
  }
  const { call } = await newKey(['analytics:read', 'links:read'], { app_ids: [app.id] });
  const clicks = async (query: string, as = call) =>
    (await as('GET', `/analytics/overview${query}`)).body.totals.clicks;
  expect(await clicks('', owner.call)).toBe(7);
  expect(await clicks('')).toBe(2);
  expect(await clicks(`?app_id=${app.id}`)).toBe(2);
  expect(await clicks(`?app_id=-${app.id}`)).toBe(0);
  const top = (await call('GET', '/analytics/top-links')).body;
  expect([top.pagination.total, top.data[0].clicks]).toEqual([1, 2]);
  const exported = (await call('GET', '/analytics/export')).body as string;
  expect(
    exported
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).app_id),
  ).toEqual([app.id, app.id]);
  expect((await call('GET', '/links?sort=clicks')).body.data[0].id).toBe(link.id);
});

test('an app’s API key is shown to server keys that may write apps, but not to read-only keys', async () => {
  const reader = (await (await newKey(['apps:read'])).call('GET', `/apps/${app.id}`)).body;
  expect([reader.api_key, typeof reader.api_key_preview]).toEqual([undefined, 'string']);
  const writer = (await (await newKey(['apps:write'])).call('GET', `/apps/${app.id}`)).body;
  expect(writer.api_key).toBe(app.api_key);
});

test('the last use of a key is recorded, at most once a minute', async () => {
  const { id, call } = await newKey(['links:read']);
  const used = async () => {
    const sql = 'SELECT last_used_at, xmin::text AS writer FROM server_keys WHERE id = $1';
    const [row] = await api.db.query<{ last_used_at: Date | null; writer: string }>(sql, [id]);
    return row;
  };
  await Promise.all(Array.from({ length: 10 }, () => call('GET', '/links')));
  const first = await used();
  expect(first?.last_used_at).toBeInstanceOf(Date);
  api.advance(30_000);
  await call('GET', '/links');
  expect(await used()).toEqual(first);
  api.advance(31_000);
  await call('GET', '/links');
  expect((await used())?.last_used_at?.getTime()).toBeGreaterThanOrEqual(
    (first?.last_used_at?.getTime() ?? 0) + 60_000,
  );
});

test('a key outlives its creator’s account, but not its organization', async () => {
  const member = await api.member('owner', owner.organization_id);
  const { call, id } = await newKey(['apps:read'], {}, member);
  await api.db.execute('DELETE FROM users WHERE id = $1', [member.user_id]);
  expect((await call('GET', '/apps')).status).toBe(200);
  const listed = (await owner.call('GET', '/keys?limit=100')).body.data as { id: string; created_by: string | null }[];
  expect(listed.find((one) => one.id === id)?.created_by).toBeNull();
  const ended = await api.member();
  const doomed = await newKey(['apps:read'], {}, ended);
  await api.db.execute('UPDATE organizations SET deleted_at = now() WHERE id = $1', [ended.organization_id]);
  expect((await doomed.call('GET', '/apps')).status).toBe(401);
});

test('a key with a wrong checksum, or in X-API-Key, is not accepted as a credential', async () => {
  const { key } = await newKey(['links:read']);
  const wrong = `${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`;
  expect((await api.call(wrong, 'GET', '/links')).status).toBe(401);
  const headers = { 'x-forwarded-proto': 'https', 'x-api-key': key };
  expect((await fetch(`${api.url}/links`, { headers })).status).toBe(401);
});

test('an organization has at most a hundred keys', async () => {
  const member = await api.member();
  const { id } = await newKey(['links:read'], {}, member);
  await api.db.execute(
    `INSERT INTO server_keys (id, organization_id, name, key_hash, key_preview, scopes, created_by, created_at)
     SELECT id || n, organization_id, name, key_hash || int4send(n), key_preview, scopes, created_by, created_at
       FROM server_keys, generate_series(1, 98) AS n WHERE id = $1`,
    [id],
  );
  await newKey(['links:read'], {}, member);
  const reply = await member.call('POST', '/keys', { name: 'One more', scopes: ['links:read'] });
  expect([reply.status, reply.body.error.message]).toEqual([400, expect.stringContaining('100 keys')]);
});
