import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let appId = '';
let host = '';

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = [await api.member(), await api.member()];
  const app = await owner.call('POST', '/apps', { name: 'Bulk' });
  [appId, host] = [app.body.id, app.body.host];
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

const create = (links: unknown, member = owner) => member.call('POST', '/links/bulk', { links });
const listed = async (query: string, member = owner) => (await member.call('GET', `/links?${query}`)).body;
const codes = (n: number, name: string) => Array.from({ length: n }, (_, at) => `${name}-${at}`);

test('ten thousand links are created in ten requests', { tags: ['slow'] }, async () => {
  const startedMs = Date.now();
  for (let batch = 0; batch < 10; batch++) {
    const links = codes(1_000, `many-${batch}`).map((external_id) => ({
      app_id: appId,
      path: '/m',
      external_id,
      tags: ['many'],
    }));
    const { status, body } = await create(links);
    expect([status, body.created, body.failed]).toEqual([200, 1_000, 0]);
  }
  const tookMs = Date.now() - startedMs;
  console.log(`10,000 links in bulk: ${tookMs} ms`);
  // A quiet machine needs a few seconds.
  expect(tookMs).toBeLessThan(40_000);
  expect((await listed(`tag=many&limit=1&app_id=${appId}`)).pagination.total).toBe(10_000);
});

test('a batch returns a result for each link in order: the created link, or why it was rejected', async () => {
  const held = (
    await owner.call('POST', '/links', { app_id: appId, path: '/x', short_code: 'held', external_id: 'held' })
  ).body;
  const foreign = (await stranger.call('POST', '/apps', { name: 'Foreign' })).body;
  const full = {
    app_id: appId,
    path: 'products/1',
    short_code: 'batch-1',
    campaign: 'été',
    data: { a: [1, { b: null }] },
    tags: ['x', 'y'],
    expires_at: '2030-01-02T03:04:05.678Z',
    title: '',
    archived: true,
    tap_page: 'mobile',
    rules: [{ language: ['de'], url: 'https://de.example.com/x' }],
  };
  const { status, body } = await create([
    full,
    { path: '/only-app' },
    { app_id: appId },
    { app_id: appId, path: '/x', short_code: 'held' },
    { app_id: appId, path: '/x', external_id: 'held' },
    { app_id: appId, path: '/x', short_code: 'batch-1' },
    { app_id: foreign.id, path: '/x' },
    { app_id: newId('app', 1), path: '/x' },
    { app_id: appId, path: '/x', tags: 'sale', ios_url: 'http://x' },
    'link',
    { app_id: appId, url: 'https://www.example.com/shoes?size=41' },
  ]);
  expect([status, body.created, body.failed]).toEqual([200, 3, 8]);
  const [first] = body.results;
  expect(first.link).toMatchObject({ ...full, path: '/products/1', title: null, url: `https://${host}/batch-1` });
  expect((await owner.call('GET', `/links/${first.link.id}`)).body).toEqual(first.link);
  const briefly = body.results.map(({ index, status, link, error }: Record<string, { [name: string]: unknown }>) => [
    index,
    status,
    error ? [error['code'], (error['details'] as { field?: string } | undefined)?.field] : link?.['path'],
  ]);
  expect(briefly).toEqual([
    [0, 'created', '/products/1'],
    [1, 'created', '/only-app'],
    [2, 'failed', ['VALIDATION_ERROR', 'path']],
    [3, 'failed', ['VALIDATION_ERROR', 'short_code']],
    [4, 'failed', ['VALIDATION_ERROR', 'external_id']],
    [5, 'failed', ['VALIDATION_ERROR', 'short_code']],
    [6, 'failed', ['FORBIDDEN', undefined]],
    [7, 'failed', ['NOT_FOUND', undefined]],
    [8, 'failed', ['VALIDATION_ERROR', 'tags']],
    [9, 'failed', ['VALIDATION_ERROR', 'body']],
    [10, 'created', '/shoes?size=41'],
  ]);
  for (const at of [3, 4]) expect(body.results[at].error.details).toMatchObject({ reason: 'taken', link_id: held.id });
  expect(body.results[5].error.details.link_id).toBe(first.link.id);
});

test.each([
  ['no links', { links: [] }, 'links'],
  ['too many links', { links: Array.from({ length: 1_001 }, () => ({ path: '/x' })) }, 'links'],
  ['no list', { links: {} }, 'links'],
  ['nothing', {}, 'links'],
  ['an unknown field', { links: [{ path: '/x' }], dry_run: true }, 'dry_run'],
])('a batch with %s is a 400 that names the field', async (_, body, field) => {
  const reply = await owner.call('POST', '/links/bulk', body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test('two concurrent batches with the same links in opposite orders create each link once', async () => {
  const links = codes(300, 'twice').map((external_id) => ({ app_id: appId, path: '/t', external_id, tags: ['twice'] }));
  const replies = await Promise.all([create(links), create([...links].reverse()), create(links)]);
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(replies.reduce((sum, { body }) => sum + body.created, 0)).toBe(300);
  expect((await listed('tag=twice&limit=1')).pagination.total).toBe(300);
});

test('many links are changed and deleted by their ids, and ids of other callers are reported', async () => {
  const made = (await create(codes(3, 'ids').map((short_code) => ({ app_id: appId, path: '/i', short_code })))).body
    .results;
  const ids = made.map(({ link }: { link: { id: string } }) => link.id);
  await stranger.call('POST', '/apps', { name: 'Mine' });
  const theirs = (await stranger.call('GET', '/apps')).body.data[0].id;
  const foreign = (await stranger.call('POST', '/links', { app_id: theirs, path: '/f' })).body.id;
  const asked = [...ids, foreign, 'x'];
  const changed = await owner.call('PATCH', '/links/bulk', {
    ids: asked,
    changes: { tags: ['ids'], archived: true, title: 'T' },
  });
  expect([changed.status, changed.body.updated]).toEqual([200, 3]);
  expect(changed.body.failed.map(({ id, error }: { id: string; error: { code: string } }) => [id, error.code])).toEqual(
    [
      [foreign, 'NOT_FOUND'],
      ['x', 'NOT_FOUND'],
    ],
  );
  expect((await listed('tag=ids&archived=true')).data.map(({ title }: { title: string }) => title)).toEqual([
    'T',
    'T',
    'T',
  ]);
  expect((await stranger.call('GET', `/links/${foreign}`)).body.title).toBeNull();
  const deleted = await owner.call('DELETE', '/links/bulk', { ids: asked });
  expect([deleted.status, deleted.body.deleted, deleted.body.failed.length]).toEqual([200, 3, 2]);
  expect((await owner.call('GET', `/links/${ids[0]}`)).status).toBe(404);
  expect((await stranger.call('GET', `/links/${foreign}`)).status).toBe(200);
});

test('many links are changed and deleted by a filter, and links that do not match stay unchanged', async () => {
  const links = codes(5, 'f').map((title, at) => ({
    app_id: appId,
    path: '/f',
    title,
    campaign: at < 3 ? 'old' : 'new',
  }));
  await create(links);
  const changed = await owner.call('PATCH', '/links/bulk', {
    filter: { campaign: 'old', search: 'f-' },
    changes: { campaign: null },
  });
  expect(changed.body).toEqual({ updated: 3, failed: [] });
  expect((await listed('campaign=new')).pagination.total).toBe(2);
  expect((await owner.call('DELETE', '/links/bulk', { filter: { campaign: 'new' } })).body).toEqual({
    deleted: 2,
    failed: [],
  });
  expect((await listed('search=f-')).pagination.total).toBe(3);
});

test('tags are added to and removed from each link, and a link that would have more than 20 is reported and stays unchanged', async () => {
  const full = Array.from({ length: 20 }, (_, at) => `t${at}`);
  const links = [[], ['a', 'b'], ['b', 'c'], full].map((tags) => ({ app_id: appId, path: '/t', tags }));
  const ids = (await create(links)).body.results.map(({ link }: { link: { id: string } }) => link.id);
  const changes = { add_tags: ['new', 'a'], remove_tags: ['b'], campaign: 'tagged' };
  const changed = await owner.call('PATCH', '/links/bulk', { ids, changes });
  expect([changed.status, changed.body.updated]).toEqual([200, 3]);
  expect(changed.body.failed).toMatchObject([
    { id: ids[3], error: { code: 'VALIDATION_ERROR', details: { field: 'changes.add_tags' } } },
  ]);
  const after = await Promise.all(ids.map(async (id: string) => (await owner.call('GET', `/links/${id}`)).body));
  expect(after.map(({ tags }) => tags)).toEqual([['new', 'a'], ['a', 'new'], ['c', 'new', 'a'], full]);
  expect(after.map(({ campaign }) => campaign)).toEqual(['tagged', 'tagged', 'tagged', null]);
  expect((await listed('tag=new')).pagination.total).toBe(3);
  const removed = await owner.call('PATCH', '/links/bulk', { ids, changes: { remove_tags: ['t0'], add_tags: ['z'] } });
  expect([removed.body.updated, removed.body.failed]).toEqual([4, []]);
});

test('a change of many links is one transaction of statements for at most a thousand, so that a busy Postgres completes each', async () => {
  const links = codes(1_000, 'statement').map((external_id) => ({
    app_id: appId,
    path: '/s',
    campaign: 'cut',
    external_id,
  }));
  await create(links);
  await create(links.map((link) => ({ ...link, external_id: `${link.external_id}-b` })));
  await api.db.query(`CREATE TABLE statement_sizes (size integer, transaction bigint);
    CREATE FUNCTION note_statement_size() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
      BEGIN INSERT INTO statement_sizes SELECT count(*), txid_current() FROM changed; RETURN NULL; END $$;
    CREATE TRIGGER note_statement_size AFTER UPDATE ON links REFERENCING NEW TABLE AS changed
      FOR EACH STATEMENT EXECUTE FUNCTION note_statement_size()`);
  const filter = { app_id: appId, campaign: 'cut' };
  const { body } = await owner.call('PATCH', '/links/bulk', { filter, changes: { title: 'Cut' } });
  const sizes = await api.db.query<{ size: number; transaction: string }>(
    'SELECT * FROM statement_sizes ORDER BY size',
  );
  await api.db.query('DROP TABLE statement_sizes; DROP FUNCTION note_statement_size CASCADE');
  expect(body).toEqual({ updated: 2_000, failed: [] });
  expect(sizes.map(({ size }) => size)).toEqual([1_000, 1_000]);
  expect(new Set(sizes.map(({ transaction }) => transaction)).size).toBe(1);
});

test('a change that takes too long is undone and answered with Retry-After', async () => {
  await api.db.query(`CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END $$;
    CREATE TRIGGER wait_for_test AFTER UPDATE ON links FOR EACH STATEMENT EXECUTE FUNCTION wait_for_test()`);
  const filter = { app_id: appId, campaign: 'cut' };
  const reply = await api.db.transaction(async (holder) => {
    await holder.query('SELECT pg_advisory_xact_lock(77)');
    const answer = owner.call('PATCH', '/links/bulk', { filter, changes: { title: 'Late' } });
    const waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted";
    await expect.poll(async () => (await holder.query(waiting)).length).toBe(1);
    api.advance(16_000);
    return { answer };
  });
  const { status, headers, body } = await reply.answer;
  await api.db.query('DROP FUNCTION wait_for_test CASCADE');
  expect([status, body.error.code, headers.get('retry-after')]).toEqual([500, 'INTERNAL_ERROR', '5']);
  expect(await api.db.query("SELECT FROM links WHERE title = 'Late'")).toEqual([]);
});

test('a filter that matches more than 10,000 links is rejected, and changes nothing', { tags: ['slow'] }, async () => {
  await create([{ app_id: appId, path: '/m', tags: ['many'] }]);
  const reply = await owner.call('PATCH', '/links/bulk', { filter: { tag: 'many' }, changes: { archived: true } });
  expect([reply.status, reply.body.error.details.field]).toEqual([400, 'filter']);
  expect((await listed('tag=many&archived=true&limit=1')).pagination.total).toBe(0);
});

test.each([
  ['neither ids nor a filter', { changes: { title: 'x' } }, 'ids'],
  ['both', { ids: ['x'], filter: { tag: 'x' }, changes: { title: 'x' } }, 'ids'],
  ['an empty filter', { filter: {}, changes: { title: 'x' } }, 'filter'],
  [
    'a time that no store holds',
    { filter: { created_after: '0001-01-01T00:00:00Z' }, changes: { title: 'x' } },
    'filter.created_after',
  ],
  ['no changes', { ids: ['x'], changes: {} }, 'changes'],
  ['a short code', { ids: ['x'], changes: { short_code: 'abc' } }, 'changes.short_code'],
  ['both all tags and some', { ids: ['x'], changes: { tags: ['a'], add_tags: ['b'] } }, 'changes.add_tags'],
  ['a bad address', { ids: ['x'], changes: { ios_url: 'http://x' } }, 'changes.ios_url'],
])('a bulk change with %s is a 400 that names the field', async (_, body, field) => {
  const reply = await owner.call('PATCH', '/links/bulk', body);
  expect([reply.status, reply.body.error.details.field]).toEqual([400, field]);
});

test.each([
  ['campaign', { campaign: 'raced' }, "campaign = 'other'"],
  ['tag', { tag: 'raced' }, "tags = '{}'"],
  ['excluded tag', { tag: '-spared', campaign: 'raced' }, "tags = '{spared}'"],
  ['search', { search: 'Raced title' }, "title = 'Renamed'"],
  ['archived', { archived: false, campaign: 'raced' }, 'archived = true'],
])(
  'a link that stops matching the filter (%s) while a bulk change waits for it is left alone',
  async (_, filter, change) => {
    for (const [method, count] of [
      ['PATCH', 'updated'],
      ['DELETE', 'deleted'],
    ] as const) {
      const fields = { app_id: appId, path: '/raced', campaign: 'raced', tags: ['raced'], title: 'Raced title' };
      const made = (await create([fields, fields])).body.results.map((one: { link: { id: string } }) => one.link.id);
      const [kept = '', changed = ''] = made;
      const body = method === 'PATCH' ? { filter, changes: { path: '/changed' } } : { filter };
      const answer = await api.db.transaction(async (other) => {
        await other.execute(`UPDATE links SET ${change} WHERE id = $1`, [kept]);
        const answer = owner.call(method, '/links/bulk', body);
        const waiting =
          "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR NO KEY UPDATE OF l%'";
        await expect.poll(async () => (await api.db.query(waiting)).length).toBe(1);
        return { answer };
      });
      const { status, body: result } = await answer.answer;
      expect([status, result[count], result.failed]).toEqual([200, 1, []]);
      const rows = await api.db.query<{ id: string; path: string; is_deleted: boolean }>(
        'SELECT id, path, deleted_at IS NOT NULL AS is_deleted FROM links WHERE id = ANY ($1) ORDER BY id = $2',
        [made, kept],
      );
      const done = method === 'PATCH' ? { path: '/changed', is_deleted: false } : { path: '/raced', is_deleted: true };
      expect(rows).toEqual([
        { id: changed, ...done },
        { id: kept, path: '/raced', is_deleted: false },
      ]);
      await owner.call('DELETE', '/links/bulk', { ids: made });
    }
  },
);

test('a viewer cannot create, change or delete links in bulk, and another organization’s app gets a 403', async () => {
  const viewer = await api.member('viewer', owner.organization_id);
  const filter = { app_id: appId };
  expect((await create([{ app_id: appId, path: '/x' }], viewer)).status).toBe(403);
  for (const member of [viewer, stranger]) {
    expect((await member.call('PATCH', '/links/bulk', { filter, changes: { title: 'x' } })).status).toBe(403);
    expect((await member.call('DELETE', '/links/bulk', { filter })).status).toBe(403);
  }
});

const upsert = (external_id: string, body: object, member = owner) =>
  member.call('PUT', `/links/by-external-id/${appId}/${encodeURIComponent(external_id)}`, body);

test('an upsert creates the link, then changes the given fields of it', async () => {
  const made = await upsert('sku/1 ü', { path: '/p', campaign: 'c', tags: ['t'] });
  expect([made.status, made.body.external_id, made.body.campaign]).toEqual([201, 'sku/1 ü', 'c']);
  const changed = await upsert('sku/1 ü', { title: 'T', campaign: null });
  expect([changed.status, changed.body]).toMatchObject([
    200,
    { id: made.body.id, path: '/p', title: 'T', campaign: null, tags: ['t'] },
  ]);
  expect((await upsert('sku/1 ü', {})).body.id).toBe(made.body.id);
  await owner.call('DELETE', `/links/${made.body.id}`);
  const again = await upsert('sku/1 ü', { path: '/p' });
  expect([again.status, again.body.id === made.body.id]).toEqual([201, false]);
});

test('an upsert that changes nothing does not update the link, and one that changes a field does', async () => {
  const body = {
    ...{ path: 'p', title: 'T', campaign: null, tags: ['b', 'a'], data: { b: 1, a: [null] }, max_clicks: 5 },
    ...{ url: 'https://www.example.com/', rules: [{ country: ['DE'], url: 'https://www.example.com/de' }] },
    ...{ expires_at: '2030-01-01T00:00:00+01:00', archived: false, short_code: 'same', og_title: null },
  };
  const made = (await upsert('same', body)).body;
  expect(await upsert('same', body)).toMatchObject({ status: 200, body: made });
  for (const [field, value] of Object.entries({ title: 'U', tags: ['a'], data: {}, rules: null, max_clicks: 6 })) {
    const changed = (await upsert('same', { ...body, [field]: value })).body;
    expect([field, changed.updated_at > made.updated_at, changed[field]]).toEqual([field, true, value]);
  }
});

test('two hundred concurrent upserts of one external id create one link', { tags: ['slow'] }, async () => {
  const replies = await Promise.all(
    Array.from({ length: 200 }, () => upsert('at-once', { path: '/p', short_code: 'at-once', title: 'Same' })),
  );
  const statuses = replies.map(({ status }) => status);
  expect([statuses.filter((one) => one === 201).length, statuses.filter((one) => one === 200).length]).toEqual([
    1, 199,
  ]);
  expect(new Set(replies.map(({ body }) => body.id)).size).toBe(1);
  expect((await listed('search=at-once')).pagination.total).toBe(1);
});

test('an upsert is rejected for a new link without a path, a taken code, an app of another organization, and a viewer', async () => {
  const none = await upsert('new', { title: 'x' });
  expect([none.status, none.body.error.details.field]).toEqual([400, 'path']);
  const code = await upsert('new', { path: '/x', short_code: 'same' });
  expect([code.status, code.body.error.details.reason]).toEqual([400, 'taken']);
  expect((await upsert('new', { path: '/x' }, stranger)).status).toBe(403);
  expect((await upsert('new', { path: '/x' }, await api.member('viewer', owner.organization_id))).status).toBe(403);
  expect((await owner.call('PUT', `/links/by-external-id/${newId('app', 1)}/x`, { path: '/x' })).status).toBe(404);
});

test('a url alone is a link’s destination on every platform, and its path is the default of the link’s path', async () => {
  const url = 'https://www.example.com/a/b?c=d#e';
  const link = (await owner.call('POST', '/links', { app_id: appId, url })).body;
  expect(link).toMatchObject({ path: '/a/b?c=d', ios_url: url, android_url: url, fallback_url: url });
  expect(link.url).toBe(`https://${host}/${link.short_code}`);
  const mixed = (await owner.call('POST', '/links', { app_id: appId, url, path: '/in-app', ios_url: null })).body;
  expect(mixed).toMatchObject({ path: '/in-app', ios_url: null, android_url: url });
  const wrong = await owner.call('POST', '/links', { app_id: appId, url: 'http://example.com/' });
  expect([wrong.status, wrong.body.error.details.field]).toEqual([400, 'url']);
  const neither = await owner.call('POST', '/links', { app_id: appId });
  expect([neither.status, neither.body.error]).toMatchObject([
    400,
    { message: 'path: is required', details: { field: 'path' } },
  ]);
});
