import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member, type Reply } from '#api/testing/running-api.ts';

let api: ApiForTest;
let owner: Member;
let viewer: Member;
let foreign: Member;
let app: { id: string };
let other: { id: string };

beforeAll(async () => {
  api = await apiForTest();
  owner = await api.member();
  viewer = await api.member('viewer', owner.organization_id);
  foreign = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'App' })).body;
  other = (await owner.call('POST', '/apps', { name: 'Other' })).body;
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const path = '/utm-templates';
let made = 0;

async function template(fields: object = {}, by = owner): Promise<Reply['body']> {
  const reply = await by.call('POST', path, { name: `T${made++}`, utm_source: 'newsletter', ...fields });
  expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  return reply.body;
}

async function keyWith(more: object): Promise<(method: string, to: string, body?: unknown) => Promise<Reply>> {
  const { key } = (await owner.call('POST', '/keys', { name: 'k', ...more })).body;
  return (method, to, body) => api.call(key, method, to, body);
}

const refusal = ({ status, body }: Reply) => [status, body.error?.details?.field];

test('a template is created, listed by name with those of its organization, read, changed in part, and deleted', async () => {
  const member = await api.member();
  const mine = (await member.call('POST', '/apps', { name: 'Mine' })).body;
  const second = (await member.call('POST', '/apps', { name: 'Second' })).body;
  const shared = await template({ name: ' Newsletter ', utm_medium: 'email', utm_term: '' }, member);
  const nulls = { utm_campaign: null, utm_term: null, utm_content: null };
  expect(shared).toMatchObject({
    organization_id: member.organization_id,
    ...{ app_id: null, name: 'Newsletter', utm_source: 'newsletter', utm_medium: 'email', ...nulls },
    created_by: member.user_id,
  });
  const own = await template({ name: 'Ads', app_id: mine.id }, member);
  const ofSecond = await template({ name: 'Late', app_id: second.id }, member);
  const listed = async (query: string) => {
    const { data, pagination } = (await member.call('GET', `${path}${query}`)).body;
    expect(pagination.total).toBe(data.length);
    return data.map(({ id }: { id: string }) => id);
  };
  expect(await listed('')).toEqual([own.id, ofSecond.id, shared.id]);
  expect(await listed(`?app_id=${mine.id}`)).toEqual([own.id, shared.id]);
  expect((await member.call('GET', `${path}?limit=1&offset=1`)).body).toMatchObject({
    data: [ofSecond],
    pagination: { total: 3, has_more: true },
  });
  const at = `${path}/${shared.id}`;
  const changed = await member.call('PATCH', at, { utm_medium: null, utm_campaign: 'spring' });
  expect(changed.body).toMatchObject({ name: 'Newsletter', utm_source: 'newsletter', utm_medium: null });
  expect((await member.call('GET', at)).body).toEqual(changed.body);
  const moved = await member.call('PATCH', at, { app_id: mine.id });
  expect([moved.status, moved.body.app_id]).toEqual([200, mine.id]);
  expect((await member.call('DELETE', at)).body).toEqual({ id: shared.id, deleted: true });
  for (const method of ['GET', 'DELETE']) expect((await member.call(method, at)).status).toBe(404);
  expect((await member.call('PATCH', at, { name: 'x' })).status).toBe(404);
});

test.each([
  [{ utm_source: 'a' }, 'name'],
  [{ name: ' ', utm_source: 'a' }, 'name'],
  [{ name: 'x'.repeat(101), utm_source: 'a' }, 'name'],
  [{ name: 'x' }, 'body'],
  [{ name: 'x', utm_source: '' }, 'body'],
  [{ name: 'x', utm_source: 'a'.repeat(256) }, 'utm_source'],
  [{ name: 'x', utm_source: 1 }, 'utm_source'],
  [{ name: 'x', utm_source: 'a', ref: 'b' }, 'ref'],
])('a template that is not valid is a 400: %o', async (body, field) => {
  expect(refusal(await owner.call('POST', path, body))).toEqual([400, field]);
});

test('a change that leaves a template without a parameter gets a 400', async () => {
  const { id } = await template();
  expect(refusal(await owner.call('PATCH', `${path}/${id}`, { utm_source: null }))).toEqual([400, 'body']);
  expect(refusal(await owner.call('PATCH', `${path}/${id}`, {}))[0]).toBe(400);
});

test('a name is unique in an app and among the templates of the whole organization', async () => {
  const names = { name: 'Same', utm_source: 'a' };
  await template(names);
  const own = await template({ ...names, app_id: app.id });
  await template({ ...names, app_id: other.id });
  await template(names, foreign);
  expect(refusal(await owner.call('POST', path, { ...names, name: ' Same' }))).toEqual([400, 'name']);
  expect(refusal(await owner.call('POST', path, { ...names, app_id: app.id }))).toEqual([400, 'name']);
  expect(refusal(await owner.call('PATCH', `${path}/${own.id}`, { app_id: null }))).toEqual([400, 'name']);
});

test('an organization has at most 100 templates, even if many are created concurrently or by a key that cannot see all', async () => {
  const member = await api.member();
  const [mine, second] = await Promise.all(
    ['a', 'b'].map(async (name) => (await member.call('POST', '/apps', { name })).body),
  );
  await api.db.execute(
    `INSERT INTO utm_templates (id, organization_id, app_id, name, utm_source, created_at, updated_at)
     SELECT 'utm_' || n, $1, $2, 'T' || n, 'a', now(), now() FROM generate_series(1, 95) AS n`,
    [member.organization_id, mine.id],
  );
  const { key } = (await member.call('POST', '/keys', { name: 'k', scopes: ['links:write'], app_ids: [second.id] }))
    .body;
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      api.call(n % 2 === 0 ? key : member.token, 'POST', path, {
        name: `New ${n}`,
        app_id: second.id,
        utm_source: 'a',
      }),
    ),
  );
  const refused = replies.filter(({ status }) => status !== 201);
  expect([replies.length - refused.length, refused.length]).toEqual([5, 15]);
  expect(new Set(refused.map(({ body }) => body.error.message))).toEqual(
    new Set(['body: the organization has 100 UTM templates: delete one first']),
  );
});

test('a viewer can read but not change templates; another organization can do neither', async () => {
  const mine = await template();
  const asOwners = { organization_id: owner.organization_id };
  for (const [method, to, body] of [
    ['POST', path, { ...asOwners, name: 'Theirs', utm_source: 'a' }],
    ['POST', path, { app_id: app.id, name: 'Theirs', utm_source: 'a' }],
    ['PATCH', `${path}/${mine.id}`, { name: 'Theirs' }],
    ['DELETE', `${path}/${mine.id}`, undefined],
  ] as const) {
    for (const caller of [viewer, foreign])
      expect((await caller.call(method, to, body)).status, `${method} ${to}`).toBe(403);
  }
  expect((await viewer.call('GET', `${path}/${mine.id}`)).body).toEqual(mine);
  for (const query of [`/${mine.id}`, `?organization_id=${owner.organization_id}`, `?app_id=${app.id}`])
    expect((await foreign.call('GET', `${path}${query}`)).status, query).toBe(403);
  const theirs = (await foreign.call('POST', '/apps', { name: 'Theirs' })).body;
  expect((await owner.call('PATCH', `${path}/${mine.id}`, { app_id: theirs.id })).status).toBe(403);
  const both = { ...asOwners, app_id: theirs.id, name: 'Mixed', utm_source: 'a' };
  expect((await owner.call('POST', path, both)).status).toBe(403);
  expect((await owner.call('GET', `${path}/${mine.id}`)).body).toEqual(mine);
});

test('a key limited to some apps can use the templates of its organization, but change only those of its apps', async () => {
  const [shared, own, others] = [
    await template(),
    await template({ app_id: app.id }),
    await template({ app_id: other.id }),
  ];
  const limited = await keyWith({ scopes: ['links:write'], app_ids: [app.id] });
  const ids = (await limited('GET', `${path}?limit=100`)).body.data.map(({ id }: { id: string }) => id);
  expect([shared, own, others].map(({ id }) => ids.includes(id))).toEqual([true, true, false]);
  const link = await limited('POST', '/links', { app_id: app.id, path: '/k', utm_template_id: shared.id });
  expect([link.status, link.body.utm_source]).toEqual([201, 'newsletter']);
  for (const [method, to, body] of [
    ['GET', `/${others.id}`, undefined],
    ['GET', `?app_id=${other.id}`, undefined],
    ['POST', '', { name: 'By a key', utm_source: 'a' }],
    ['POST', '', { name: 'By a key', utm_source: 'a', app_id: other.id }],
    ['PATCH', `/${shared.id}`, { name: 'x' }],
    ['PATCH', `/${others.id}`, { name: 'x' }],
    ['PATCH', `/${own.id}`, { app_id: null }],
    ['PATCH', `/${own.id}`, { app_id: other.id }],
    ['DELETE', `/${shared.id}`, undefined],
    ['DELETE', `/${others.id}`, undefined],
  ] as const)
    expect((await limited(method, `${path}${to}`, body)).status, `${method} ${to}`).toBe(403);
  expect((await limited('PATCH', `${path}/${own.id}`, { utm_source: 'changed' })).body.utm_source).toBe('changed');
  const added = await limited('POST', path, { name: 'By a key', utm_source: 'a', app_id: app.id });
  expect([added.status, added.body.created_by]).toEqual([201, null]);
  expect((await limited('DELETE', `${path}/${added.body.id}`)).status).toBe(200);
  const reading = await keyWith({ scopes: ['links:read'] });
  expect((await reading('GET', path)).status).toBe(200);
  expect((await reading('DELETE', `${path}/${own.id}`)).status).toBe(403);
});

const spring = { utm_source: 'newsletter', utm_medium: 'email', utm_campaign: 'spring' };
const utmOf = ({ utm_source, utm_medium, utm_campaign, utm_term }: Record<string, unknown>) => [
  utm_source,
  utm_medium,
  utm_campaign,
  utm_term,
];

test('a template fills only the parameters that a new link omits', async () => {
  const { id } = await template(spring);
  const given = { utm_medium: null, utm_campaign: 'late', utm_term: 'shoes' };
  const made = await owner.call('POST', '/links', { app_id: app.id, path: '/a', utm_template_id: id, ...given });
  expect([made.status, ...utmOf(made.body)]).toEqual([201, 'newsletter', null, 'late', 'shoes']);
  expect(made.body).not.toHaveProperty('utm_template_id');
  const links = [
    { app_id: app.id, path: '/b', utm_template_id: id },
    { app_id: app.id, path: '/c', utm_template_id: 'utm_unknown' },
    { app_id: app.id, path: '/d', utm_template_id: id, utm_source: 'mine' },
    { app_id: app.id, path: '/e' },
  ];
  const { results } = (await owner.call('POST', '/links/bulk', { links })).body;
  expect(utmOf(results[0].link)).toEqual(['newsletter', 'email', 'spring', null]);
  expect(results[1].error.details.field).toBe('utm_template_id');
  expect(utmOf(results[2].link)).toEqual(['mine', 'email', 'spring', null]);
  expect(utmOf(results[3].link)).toEqual([null, null, null, null]);
});

test('a template fills what a repeated upsert omits, and the second upsert changes nothing', async () => {
  const { id } = await template(spring);
  const at = `/links/by-external-id/${app.id}/sku-1`;
  const first = await owner.call('PUT', at, { path: '/a', utm_template_id: id, utm_source: 'shop' });
  expect([first.status, ...utmOf(first.body)]).toEqual([201, 'shop', 'email', 'spring', null]);
  const again = await owner.call('PUT', at, { utm_template_id: id, utm_source: 'shop' });
  const { updated_at: _, ...before } = first.body;
  expect([again.status, again.body]).toMatchObject([200, before]);
  await owner.call('PATCH', `/links/${first.body.id}`, { utm_medium: 'print', utm_term: 'kept' });
  const third = await owner.call('PUT', at, { utm_template_id: id });
  expect(utmOf(third.body)).toEqual(['newsletter', 'email', 'spring', 'kept']);
});

test('links cannot name a template of another app or organization, or one that does not exist', async () => {
  const [others, theirs] = [await template({ app_id: other.id }), await template({}, foreign)];
  for (const utm_template_id of [others.id, theirs.id, `${others.id.slice(0, -4)}0000`, 'x', '']) {
    const body = { path: '/a', utm_template_id };
    expect(refusal(await owner.call('POST', '/links', { app_id: app.id, ...body }))).toEqual([400, 'utm_template_id']);
    const upserted = await owner.call('PUT', `/links/by-external-id/${app.id}/none`, body);
    expect(refusal(upserted)).toEqual([400, 'utm_template_id']);
  }
  const { id } = (await owner.call('POST', '/links', { app_id: app.id, path: '/a' })).body;
  const patched = await owner.call('PATCH', `/links/${id}`, { utm_template_id: others.id });
  expect(refusal(patched)).toEqual([400, 'utm_template_id']);
});

test('links keep values from a template when it is changed or deleted', async () => {
  const { id } = await template(spring);
  const link = (await owner.call('POST', '/links', { app_id: app.id, path: '/a', utm_template_id: id })).body;
  await owner.call('PATCH', `${path}/${id}`, { utm_source: 'other' });
  await owner.call('DELETE', `${path}/${id}`);
  expect((await owner.call('GET', `/links/${link.id}`)).body).toEqual(link);
});

test('the templates of an app are deleted with it', async () => {
  const member = await api.member();
  const gone = (await member.call('POST', '/apps', { name: 'Gone' })).body;
  const own = await template({ app_id: gone.id }, member);
  const shared = await template({}, member);
  await member.call('DELETE', `/apps/${gone.id}`);
  expect((await member.call('GET', `${path}/${own.id}`)).status).toBe(404);
  expect((await member.call('GET', path)).body.data).toEqual([shared]);
  const late = { app_id: gone.id, name: 'Late', utm_source: 'a' };
  expect((await member.call('POST', path, late)).status).toBe(404);
});

test('the audit log says who created, changed and deleted a template', async () => {
  const member = await api.member();
  const { id } = await template({}, member);
  await member.call('PATCH', `${path}/${id}`, { utm_source: 'secret' });
  await member.call('DELETE', `${path}/${id}`);
  const { data } = (await member.call('GET', `/audit-log?target_id=${id}`)).body;
  const rows = data.map((row: Record<string, unknown>) => [row['action'], row['actor_id'], row['fields']]);
  expect(rows).toEqual([
    ['deleteUtmTemplate', member.user_id, []],
    ['updateUtmTemplate', member.user_id, ['utm_source']],
    ['createUtmTemplate', member.user_id, ['name', 'utm_source']],
  ]);
});
