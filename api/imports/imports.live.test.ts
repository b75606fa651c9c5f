import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type ExportedLink, exportedLink, exportFile } from '#api/testing/export-files.ts';
import { type ApiForTest, apiForTest, type Member, type Reply } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { newId } from '#common/ids.ts';
import { linkExample } from '#common/links/link.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import { type ImportSource, importSources } from './import-columns.ts';
import { ImportWorker } from './import-worker.ts';

let api: ApiForTest;
let owner: Member;
let stranger: Member;
let apps = 0;

beforeAll(async () => {
  api = await apiForTest();
  [owner, stranger] = [await api.member(), await api.member()];
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(() => api.stop());

interface App {
  readonly id: string;
  readonly host: string;
}

async function newApp(settings: object = {}): Promise<App> {
  const ids = {
    ios: { bundle_id: 'com.example.shop', app_store_id: '123456789' },
    android: { package_name: 'com.example.shop' },
  };
  const { body } = await owner.call('POST', '/apps', { name: `Import ${++apps}`, ...ids, settings });
  return body;
}

async function uploaded(
  app: App,
  source: ImportSource,
  text: string | readonly string[],
  more: object = {},
): Promise<string> {
  const made = await owner.call('POST', '/imports', { app_id: app.id, source, ...more });
  expect([made.status, made.body.error]).toEqual([201, undefined]);
  for (const [at, part] of (typeof text === 'string' ? [text] : text).entries()) {
    const sent = await upload(made.body.id, at + 1, part);
    expect([sent.status, sent.body.error]).toEqual([200, undefined]);
  }
  return made.body.id;
}

function upload(id: string, number: number | string, text: string | Uint8Array, member = owner): Promise<Reply> {
  return send(`/imports/${id}/parts/${number}`, text, member);
}

async function send(path: string, body: string | Uint8Array, member: Member): Promise<Reply> {
  const headers = { authorization: `Bearer ${member.token}`, 'content-type': 'text/csv', 'x-forwarded-proto': 'https' };
  const reply = await fetch(api.url + path, { method: 'PUT', headers, body: Buffer.from(body) });
  return { status: reply.status, body: await reply.json(), headers: reply.headers };
}

/** Takes the step and does the work that it starts. */
async function step(id: string, name: 'check' | 'confirm' | 'undo') {
  const begun = await owner.call('POST', `/imports/${id}/${name}`, {});
  expect([begun.status, begun.body.error]).toEqual([200, undefined]);
  while (await api.imports.work(id));
  return (await owner.call('GET', `/imports/${id}`)).body;
}

const rowsOf = async (id: string, query = '') => (await owner.call('GET', `/imports/${id}/rows?${query}`)).body.data;
const linksOf = async (app: App) =>
  (await api.db.query<{ n: number }>('SELECT count(*) AS n FROM links WHERE app_id = $1', [app.id]))[0]?.n;

/** For files with custom column names. */
const ownColumns = { columns: { destination: 'Where to', created_at: 'Made', clicks: 4 } };

async function importAll(source: ImportSource, count: number): Promise<void> {
  const app = await newApp();
  const links = Array.from({ length: count }, (_, n) => exportedLink(n + 1));
  const more = source === 'csv' ? ownColumns : {};
  const id = await uploaded(app, source, exportFile(source, app.host, links), more);
  expect(await step(id, 'check')).toMatchObject({
    state: 'checked',
    problem: null,
    rows: { new: count, same: 0, conflict: 0, unsupported: 0 },
  });
  expect(await linksOf(app)).toBe(0);
  expect(await step(id, 'confirm')).toMatchObject({ state: 'imported', results: { created: count, taken: 0 } });
  const found = (await owner.call('GET', `/links?app_id=${app.id}&limit=100`)).body;
  expect(found.pagination.total).toBe(count);
  const link = links.at(-1) as ExportedLink;
  // Lists are in the order of creation, and links keep their original creation times.
  expect(found.data[0]).toMatchObject({
    short_code: link.code,
    url: `https://${app.host}/${link.code.split('/').map(encodeURIComponent).join('/')}`,
    created_at: link.created.toISOString(),
    source: 'import',
    clicks_before: source === 'firebase' ? null : link.clicks,
  });
  // A second import of the same file finds every link unchanged.
  const again = await uploaded(app, source, exportFile(source, app.host, links), more);
  expect(await step(again, 'check')).toMatchObject({ rows: { new: 0, same: count, conflict: 0, unsupported: 0 } });
  expect(await step(again, 'confirm')).toMatchObject({ state: 'imported', results: { created: 0 } });
  expect(await linksOf(app)).toBe(count);
  expect(await step(id, 'undo')).toMatchObject({
    state: 'undone',
    results: { created: count, removed: count, kept: 0 },
  });
  expect(await linksOf(app)).toBe(0);
}

test.each(importSources)(
  'a file of %s is imported once, finds its links unchanged the second time, and can be undone',
  (source) => importAll(source, 40),
);

test.each(importSources)(
  'a file of %s with 1,000 links is imported once, found as it is the second time, and taken back',
  { timeout: 120_000, tags: ['slow'] },
  (source) => importAll(source, 1_000),
);

test('a click limit is imported with its remaining clicks, and a link without remaining clicks has expired', async () => {
  const app = await newApp();
  const text = [
    'code,destination,created_at,clicks,max_clicks,expired_url',
    'some,https://e.example/1,2024-01-31,40,100,',
    'last,https://e.example/2,2024-01-31,99,100,',
    'none,https://e.example/3,2024-01-31,100,100,https://e.example/end',
    'free,https://e.example/4,2024-01-31,7,,',
    'odd,https://e.example/5,2024-01-31,7,many,',
  ].join('\n');
  const id = await uploaded(app, 'csv', text);
  expect(await step(id, 'check')).toMatchObject({ rows: { new: 4, unsupported: 1 } });
  await step(id, 'confirm');
  const { data } = (await owner.call('GET', `/links?app_id=${app.id}`)).body;
  const link = (code: string) => data.find(({ short_code }: { short_code: string }) => short_code === code);
  const seen = async (code: string) => {
    const explained = await owner.call('POST', `/links/${link(code).id}/explain`, {
      user_agent: 'Mozilla/5.0 (X11; Linux)',
    });
    return [link(code).max_clicks, link(code).clicks_before, explained.body.location];
  };
  expect(link('some').click_limit).toEqual({ used: 0, held: 0, left: 60, given_up: 0 });
  expect([await seen('some'), await seen('last'), await seen('free')]).toEqual([
    [60, 40, 'https://e.example/1'],
    [1, 99, 'https://e.example/2'],
    [null, 7, 'https://e.example/4'],
  ]);
  expect(await seen('none')).toEqual([null, 100, 'https://e.example/end']);
  expect(link('none').expires_at).toBe('2024-01-31T00:00:00.000Z');
});

test.each([';', ',', '|', '\t'])(
  'a first line that names the separator %j is read, with and without a header',
  async (separator) => {
    const app = await newApp();
    const rows = [
      ['code', 'destination', 'title'],
      ['one', 'https://e.example/1', 'A'],
      ['two', 'https://e.example/2', 'B'],
    ];
    const text = (some: string[][]) =>
      `\ufeffsep=${separator}\r\n${some.map((row) => row.join(separator)).join('\r\n')}\r\n`;
    const id = await uploaded(app, 'csv', text(rows));
    expect(await step(id, 'check')).toMatchObject({ rows: { new: 2, unsupported: 0 } });
    expect((await rowsOf(id)).map(({ line }: { line: number }) => line)).toEqual([3, 4]);
    await step(id, 'confirm');
    const bare = await uploaded(await newApp(), 'yourls', text(rows.slice(1)));
    expect(await step(bare, 'check')).toMatchObject({ rows: { new: 2, unsupported: 0 } });
    await step(bare, 'confirm');
  },
);

test('a row that leads to itself, or whose values are cut, is unsupported in the report', async () => {
  const app = await newApp();
  const text = [
    'code,url,title',
    'maps,https://www.example.com/maps/@52.5,13.4,15z,Map',
    `self,https://${app.host}/self,Self`,
    `ring,https://${app.host}/back/,Ring`,
    `back,https://${app.host}/ring,Ring`,
    'fine,https://www.example.com/,Fine,,',
  ].join('\n');
  const id = await uploaded(app, 'csv', text);
  expect(await step(id, 'check')).toMatchObject({ rows: { new: 1, unsupported: 4 } });
  const seen = (await rowsOf(id)).map((row: Record<string, unknown>) => [
    row['line'],
    row['outcome'],
    row['field'],
    row['reason'],
  ]);
  expect(seen).toEqual([
    [2, 'unsupported', 'row', 'extra_cells'],
    [3, 'unsupported', 'url', 'loop'],
    [4, 'unsupported', 'url', 'loop'],
    [5, 'unsupported', 'url', 'loop'],
    [6, 'new', null, null],
  ]);
  await step(id, 'confirm');
});

test('a dry run reports every row with its line, field and reason, page by page', async () => {
  const app = await newApp();
  const taken = (await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code: 'taken' })).body.id;
  const gone = (await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code: 'gone' })).body.id;
  await owner.call('DELETE', `/links/${gone}`);
  const text = [
    'code,destination,title,Mystery',
    'fresh,https://e.example/1,"two\nlines"',
    '',
    'fresh,https://e.example/1,"two\nlines"',
    'fresh,https://e.example/2,',
    'taken,https://e.example/3,',
    'gone,https://e.example/4,',
    'bad code,https://e.example/5,',
    'http,http://e.example/6,',
  ].join('\n');
  const id = await uploaded(app, 'csv', text);
  expect(await step(id, 'check')).toMatchObject({
    rows: { new: 1, same: 1, conflict: 3, unsupported: 2 },
    columns_ignored: ['Mystery'],
  });
  const rows = await rowsOf(id);
  const short = rows.map(({ line, outcome, field, reason, link_id }: Record<string, unknown>) => [
    line,
    outcome,
    field,
    reason,
    link_id,
  ]);
  expect(short).toEqual([
    [3, 'new', null, null, null],
    [6, 'same', 'code', 'repeated', null],
    [7, 'conflict', 'code', 'repeated', null],
    [8, 'conflict', 'path', 'differs', taken],
    [9, 'conflict', 'code', 'deleted', gone],
    [10, 'unsupported', 'code', 'bad_code', null],
    [11, 'unsupported', 'url', 'invalid', null],
  ]);
  const pages: unknown[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Reply = await owner.call('GET', `/imports/${id}/rows?limit=2&cursor=${cursor}`);
    pages.push(...page.body.data);
    cursor = page.body.next_cursor;
  }
  expect(pages).toEqual(rows);
  expect((await rowsOf(id, 'outcome=conflict')).map(({ line }: { line: number }) => line)).toEqual([7, 8, 9]);
});

test('a dry run shows that an external_id is given twice, also far apart in the file, and confirming creates the first', async () => {
  const app = await newApp();
  const more = Array.from({ length: 2_100 }, (_, n) => `more${n},https://e.example/more,`);
  const text = [
    'code,destination,external_id',
    'one,https://e.example/1,x1',
    // Sorts before the first by its code.
    'a,https://e.example/2,x1',
    // A row that creates no link takes no external_id.
    'one,https://e.example/3,x2',
    'two,https://e.example/4,x2',
    ...more,
    'last,https://e.example/5,x1',
    'none,https://e.example/6,',
  ].join('\n');
  const id = await uploaded(app, 'csv', text);
  expect(await step(id, 'check')).toMatchObject({
    rows: { new: 2_103, same: 0, conflict: 3, unsupported: 0 },
  });
  const conflicts = async () =>
    (await rowsOf(id, 'outcome=conflict')).map((row: Record<string, unknown>) => [
      row['line'],
      row['field'],
      row['reason'],
      row['message'],
    ]);
  expect(await conflicts()).toEqual([
    [3, 'external_id', 'repeated', 'line 2 already has this external_id'],
    [4, 'code', 'repeated', 'line 2 already has this code'],
    [2_106, 'external_id', 'repeated', 'line 2 already has this external_id'],
  ]);
  expect(await step(id, 'confirm')).toMatchObject({ state: 'imported', results: { created: 2_103, taken: 0 } });
  const sql = "SELECT short_code FROM links WHERE app_id = $1 AND external_id = 'x1'";
  expect(await api.db.query(sql, [app.id])).toEqual([{ short_code: 'one' }]);
  expect(await api.db.query('SELECT FROM import_codes WHERE import_id = $1', [id])).toEqual([]);
});

test('a file may be split anywhere, and a part may be sent again', async () => {
  const app = await newApp();
  const text = exportFile(
    'shlink',
    app.host,
    Array.from({ length: 30 }, (_, n) => exportedLink(n + 1)),
  );
  const bytes = Buffer.from(text);
  const id = await uploaded(app, 'shlink', []);
  // Splits in the middle of a byte order mark, of characters, and of quoted fields.
  const cuts = [0, 1, 2, 60, 61, ...Array.from({ length: 40 }, (_, n) => 200 + n * 97)].filter(
    (at) => at < bytes.length,
  );
  for (const [at, from] of cuts.entries()) await upload(id, at + 1, bytes.subarray(from, cuts[at + 1] ?? bytes.length));
  await upload(id, 1, bytes.subarray(0, 1));
  expect(await step(id, 'check')).toMatchObject({
    rows: { new: 30, unsupported: 0 },
    progress: { bytes: bytes.length, rows_read: 30 },
  });
});

test('the separator is found in a first line that follows blank lines and that parts end within', async () => {
  const app = await newApp();
  const id = await uploaded(app, 'csv', [
    '\r\n',
    '\r\nco',
    'de;desti',
    'nation\r\nsplit1;https://e.example/?a=1,2,3\r\n',
  ]);
  expect(await step(id, 'check')).toMatchObject({ state: 'checked', problem: null, rows: { new: 1, unsupported: 0 } });
});

/** Another process that dies after a number of chunks. */
async function workThenDie(id: string, chunks: number): Promise<void> {
  const { db } = api;
  const parts = { db, tenancy: new Tenancy(db), clock: systemClock, log: { warn: () => undefined } };
  const worker = new ImportWorker({ ...parts, deliverChanges: async () => true });
  let done = 0;
  await worker.work(id, () => ++done >= chunks);
  await db.execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id]);
}

test('a process that dies at any chunk of any step skips nothing and repeats nothing', { tags: ['slow'] }, async () => {
  const app = await newApp();
  const count = 1_700;
  const links = Array.from({ length: count }, (_, n) => exportedLink(n + 1));
  const bytes = Buffer.from(exportFile('bitly', app.host, links));
  const id = await uploaded(app, 'bitly', []);
  for (let n = 0; n < 4; n++) {
    const part = bytes.subarray(Math.floor((n * bytes.length) / 4), Math.floor(((n + 1) * bytes.length) / 4));
    expect((await upload(id, n + 1, part)).status).toBe(200);
  }
  const state = async () => (await owner.call('GET', `/imports/${id}`)).body;
  for (const [name, done, figures] of [
    ['check', 'checked', { rows: { new: count, same: 0, conflict: 0, unsupported: 0 } }],
    ['confirm', 'imported', { results: { created: count, taken: 0 } }],
    ['undo', 'undone', { results: { created: count, removed: count, kept: 0 } }],
  ] as const) {
    await owner.call('POST', `/imports/${id}/${name}`, {});
    for (let deaths = 0; (await state()).state !== done; deaths++) {
      expect(deaths).toBeLessThan(20);
      await workThenDie(id, 1 + (deaths % 2));
    }
    expect(await state()).toMatchObject(figures);
    const lines = await api.db.query<{ line: number }>(
      'SELECT line FROM import_rows WHERE import_id = $1 ORDER BY number',
      [id],
    );
    expect(lines.map(({ line }) => line)).toEqual(Array.from({ length: count }, (_, n) => n + 2));
    expect(await linksOf(app)).toBe(name === 'confirm' ? count : 0);
  }
});

test('two processes never work on one import, and a process that lost its lease writes nothing more', async () => {
  const app = await newApp();
  const links = Array.from({ length: 1_200 }, (_, n) => exportedLink(n + 1));
  const id = await uploaded(app, 'dub', exportFile('dub', app.host, links));
  await owner.call('POST', `/imports/${id}/check`, {});
  const { db } = api;
  const parts = { db, tenancy: new Tenancy(db), clock: systemClock, log: { warn: () => undefined } };
  const [first, second] = [0, 1].map(() => new ImportWorker({ ...parts, deliverChanges: async () => true }));
  let isTaken = false;
  await first?.work(id, () => {
    // Between two chunks, its lease ends and another process finishes the import.
    if (!isTaken) {
      isTaken = true;
      stolen = db
        .execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id])
        .then(() => second?.work(id));
    }
    return false;
  });
  await stolen;
  expect((await owner.call('GET', `/imports/${id}`)).body).toMatchObject({
    state: 'checked',
    rows: { new: 1_200, same: 0, conflict: 0, unsupported: 0 },
    progress: { rows_read: 1_200 },
  });
});
let stolen: Promise<unknown> | undefined;

test('messages about imported links have the time of the import and of its undo, not the creation date of the old service', async () => {
  const app = await newApp();
  const url = 'https://hooks.example.com/imports';
  const hook = await owner.call('POST', '/webhooks', {
    url,
    events: ['link.created', 'link.deleted'],
    app_ids: [app.id],
  });
  const id = await uploaded(app, 'csv', 'code,destination,created\nolder,https://a.example/,2019-05-06T07:08:09Z\n');
  await step(id, 'check');
  const begun = Date.now();
  await step(id, 'confirm');
  const imported = Date.now();
  await api.db.execute(`UPDATE links SET updated_at = '2020-01-01' WHERE app_id = $1`, [app.id]);
  await api.db.execute(`UPDATE import_rows SET stored_at = '2020-01-01' WHERE import_id = $1 AND result = 'created'`, [
    id,
  ]);
  await step(id, 'undo');
  const sql = `SELECT type, occurred_at, data ->> 'created_at' AS made FROM webhook_messages WHERE endpoint_id = $1 ORDER BY created_at`;
  const [created, deleted] = await api.db.query<{ type: string; occurred_at: Date; made: string }>(sql, [hook.body.id]);
  expect([created?.type, deleted?.type]).toEqual(['link.created', 'link.deleted']);
  expect(created?.made).toContain('2019-05-06');
  expect(created?.occurred_at.getTime()).toBeGreaterThanOrEqual(begun - 1_000);
  expect(deleted?.occurred_at.getTime()).toBeGreaterThanOrEqual(imported - 1_000);
});

test('undo removes unchanged links that the import created, and their codes can be imported again', async () => {
  const app = await newApp();
  const text =
    'code,other codes,destination\na,a2|a3,https://e.example/1\nb,,https://e.example/2\nc,,https://e.example/3\n';
  const id = await uploaded(app, 'csv', text);
  await step(id, 'check');
  await step(id, 'confirm');
  const [a, b, c] = await rowsOf(id);
  expect((await owner.call('GET', `/links/${a.link_id}`)).body.other_codes).toEqual(['a2', 'a3']);
  await owner.call('PATCH', `/links/${b.link_id}`, { title: 'Changed' });
  await owner.call('DELETE', `/links/${c.link_id}`);
  await api.db.execute('DELETE FROM outbox');
  expect(await step(id, 'undo')).toMatchObject({ state: 'undone', results: { created: 3, removed: 1, kept: 2 } });
  expect((await owner.call('GET', `/links/${a.link_id}`)).status).toBe(404);
  expect((await owner.call('GET', `/links/${b.link_id}`)).body.title).toBe('Changed');
  expect((await owner.call('GET', `/links?app_id=${app.id}`)).body.pagination.total).toBe(1);
  const again = await uploaded(app, 'csv', text);
  await step(again, 'check');
  const outcomes = (await rowsOf(again)).map(({ outcome, reason }: Record<string, unknown>) => [outcome, reason]);
  expect(outcomes).toEqual([
    ['new', null],
    // Its title is not in the file.
    ['same', null],
    ['conflict', 'deleted'],
  ]);
  expect(await step(again, 'confirm')).toMatchObject({ results: { created: 1 } });
});

test('a code that is taken between the dry run and the import is not imported, and the report says so', async () => {
  const app = await newApp();
  const id = await uploaded(
    app,
    'csv',
    'code,other codes,destination\nxyz,,https://e.example/1\nabc,def,https://e.example/2\n',
  );
  await step(id, 'check');
  for (const short_code of ['xyz', 'def'])
    await owner.call('POST', '/links', { app_id: app.id, path: '/x', short_code });
  expect(await step(id, 'confirm')).toMatchObject({ results: { created: 1, taken: 1 } });
  expect(await rowsOf(id)).toMatchObject([
    { result: 'conflict', field: 'code', reason: 'taken', link_id: null },
    { result: 'created', field: 'other_codes', reason: 'taken', link_id: expect.stringMatching(/^lnk_/) },
  ]);
});

test('imported totals are shown with the link and are not part of any figure', async () => {
  const app = await newApp();
  const id = await uploaded(app, 'csv', 'code,destination,clicks\nabc,https://e.example/1,"12,345"\n');
  await step(id, 'check');
  await step(id, 'confirm');
  const [link] = (await owner.call('GET', `/links?app_id=${app.id}&include=clicks`)).body.data;
  expect([link.clicks_before, link.clicks]).toEqual([12_345, 0]);
  expect((await owner.call('GET', `/analytics/overview?app_id=${app.id}`)).body.totals.clicks).toBe(0);
});

test.each([
  ['nothing of a link', 'a,b\n1,2\n', 'short URL'],
  ['a quotation mark that is never closed', `code,destination\n"${'x'.repeat(270_000)}`, 'Max Record Size'],
  ['only a header', '', 'empty'],
  ['a header that is no text', 'co\0de,destination\n1,2\n', 'UTF-8'],
])('a file with %s is refused with its problem', async (_, text, problem) => {
  const id = await uploaded(await newApp(), 'csv', text === '' ? '\n' : text);
  const { state, problem: found } = await step(id, 'check');
  expect([state, found]).toEqual(['failed', expect.stringContaining(problem)]);
});

test('steps must be taken in order, and repeating one changes nothing', async () => {
  const app = await newApp();
  const id = await uploaded(app, 'csv', []);
  const call = (name: string) => owner.call('POST', `/imports/${id}/${name}`, {});
  expect((await call('check')).body.error.details.field).toBe('parts');
  expect((await call('confirm')).status).toBe(400);
  await upload(id, 2, 'code,destination\n');
  expect((await call('check')).body.error.details.field).toBe('parts');
  for (const number of ['0', '01', 'x', '1001']) expect((await upload(id, number, 'x')).status, number).toBe(400);
  expect((await upload(id, 1, '')).status).toBe(400);
  expect((await upload(id, 1, Buffer.alloc(4_194_305))).status).toBe(400);
  await upload(id, 1, '\n');
  await upload(id, 2, 'code,destination\na,https://e.example/\n');
  expect(await step(id, 'check')).toMatchObject({ state: 'checked' });
  expect((await call('check')).body.state).toBe('checked');
  expect((await upload(id, 1, 'x')).status).toBe(400);
  expect((await call('undo')).status).toBe(400);
  await step(id, 'confirm');
  expect((await call('confirm')).body.state).toBe('imported');
  await step(id, 'undo');
  expect((await call('undo')).body.state).toBe('undone');
  expect((await owner.call('DELETE', `/imports/${id}`)).body).toEqual({ id, deleted: true });
  expect((await owner.call('GET', `/imports/${id}`)).status).toBe(404);
});

test('imports are invisible outside their organization, and viewers can only read them', async () => {
  const app = await newApp();
  const id = await uploaded(app, 'csv', 'code,destination\na,https://e.example/\n');
  const viewer = await api.member('viewer', owner.organization_id);
  for (const [method, path] of [
    ['GET', `/imports/${id}`],
    ['GET', `/imports/${id}/rows`],
    ['POST', `/imports/${id}/check`],
    ['POST', `/imports/${id}/confirm`],
    ['POST', `/imports/${id}/undo`],
    ['DELETE', `/imports/${id}`],
  ] as const) {
    const ask = async (member: Member, at: string) =>
      (await member.call(method, at, method === 'POST' ? {} : undefined)).status;
    expect(await ask(stranger, path), path).toBe(403);
    expect(await ask(viewer, path), path).toBe(method === 'GET' ? 200 : 403);
    for (const unknown of [newId('imp', 1), 'x', linkExample.id])
      expect(await ask(owner, path.replace(id, unknown)), path).toBe(404);
  }
  expect((await upload(id, 1, 'x', stranger)).status).toBe(403);
  expect((await upload(id, 1, 'x', viewer)).status).toBe(403);
  for (const member of [stranger, viewer])
    expect((await member.call('POST', '/imports', { app_id: app.id, source: 'csv' })).status).toBe(403);
  expect((await stranger.call('GET', '/imports')).body.data).toEqual([]);
  expect((await stranger.call('GET', `/imports?app_id=${app.id}`)).status).toBe(403);
  expect((await viewer.call('GET', `/imports?app_id=${app.id}`)).body.data).toHaveLength(1);
});

test('an organization has at most ten unfinished imports, even if many are created concurrently', async () => {
  const member = await api.member();
  const { body: app } = await member.call('POST', '/apps', { name: 'Many imports' });
  const made = await Promise.all(
    Array.from({ length: 30 }, () => member.call('POST', '/imports', { app_id: app.id, source: 'csv' })),
  );
  expect(made.map(({ status }) => status).filter((status) => status === 201)).toHaveLength(10);
  expect(made.find(({ status }) => status !== 201)).toMatchObject({
    status: 400,
    body: { error: { message: expect.stringContaining('10 unfinished imports') } },
  });
});

test('a row that fails because of an internal error is reported, and the dry run continues', async () => {
  const app = await newApp();
  const id = await uploaded(app, 'csv', 'code,destination\na,https://e.example/1\nb,https://e.example/2\n');
  // With these options, every row fails to be read.
  await api.db.execute(`UPDATE imports SET options = options || '{"hosts": null}' WHERE id = $1`, [id]);
  await owner.call('POST', `/imports/${id}/check`, {});
  const { db } = api;
  const lines: string[] = [];
  const log = { warn: (_: object, line: string) => void lines.push(line) };
  const parts = { db, tenancy: new Tenancy(db), clock: systemClock, log: log as never };
  await new ImportWorker({ ...parts, deliverChanges: async () => true }).work(id);
  const sql = 'SELECT number, outcome, field, reason, message FROM import_rows WHERE import_id = $1 ORDER BY number';
  const message = 'could not be read because of an internal error; see the service’s log';
  const fault = { outcome: 'unsupported', field: 'row', reason: 'not_read', message };
  expect(await db.query(sql, [id])).toEqual([1, 2].map((number) => ({ number, ...fault })));
  expect(await db.query('SELECT state FROM imports WHERE id = $1', [id])).toEqual([{ state: 'checked' }]);
  expect(lines).toEqual(['a row of an import could not be read', 'a row of an import could not be read']);
  await db.execute('DELETE FROM imports WHERE id = $1', [id]);
});

test('unfinished imports are deleted after a week, and finished ones after 90 days', async () => {
  const app = await newApp();
  const ids: string[] = [];
  const age = (id: string, days: number, storedDays = days) =>
    api.db.execute(
      'UPDATE imports SET updated_at = now() - make_interval(days => $2), stored_at = now() - make_interval(days => $3) WHERE id = $1',
      [id, days, storedDays],
    );
  // An API whose clock was behind wrote the time of its last step.
  const behind = await uploaded(app, 'csv', 'code,destination\n');
  await age(behind, 800, 1);
  for (const days of [6, 8]) {
    const id = await uploaded(app, 'csv', 'code,destination\n');
    ids.push(id);
    await age(id, days);
  }
  for (const days of [89, 91]) {
    const id = await uploaded(app, 'csv', `code,destination\nkept-${days},https://e.example/\n`);
    await step(id, 'check');
    await step(id, 'confirm');
    ids.push(id);
    await age(id, days);
  }
  await api.imports.look();
  const left = await Promise.all(ids.map(async (id) => (await owner.call('GET', `/imports/${id}`)).status));
  expect(left).toEqual([200, 404, 200, 404]);
  expect((await owner.call('GET', `/imports/${behind}`)).status).toBe(200);
  expect(await linksOf(app)).toBe(2);
});

test('a file of 100,000 links is imported, found unchanged, and undone within minutes, by processes that die midway and before autovacuum runs', {
  timeout: 900_000,
  tags: ['slow'],
}, async () => {
  const app = await newApp();
  const count = 100_000;
  for (const table of ['links', 'link_codes', 'link_tags', 'import_rows', 'import_codes'])
    await api.db.execute(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
  const links = Array.from({ length: count }, (_, n) => exportedLink(n + 1));
  const bytes = Buffer.from(exportFile('dub', app.host, links));
  const wholeFile = async () => {
    const id = await uploaded(app, 'dub', []);
    for (let n = 0, from = 0; from < bytes.length; n++, from += 4_000_000)
      expect((await upload(id, n + 1, bytes.subarray(from, from + 4_000_000))).status).toBe(200);
    return id;
  };
  const id = await wholeFile();
  const seconds: Record<string, number> = {};
  const timed = async (name: string, work: () => Promise<unknown>) => {
    const startMs = performance.now();
    await work();
    seconds[name] = Math.round((performance.now() - startMs) / 100) / 10;
  };
  for (const name of ['check', 'confirm', 'undo'] as const) {
    await timed(name, async () => {
      await owner.call('POST', `/imports/${id}/${name}`, {});
      for (const chunks of [1, 70]) await workThenDie(id, chunks);
      while (await api.imports.work(id));
    });
    if (name !== 'confirm') continue;
    const again = await wholeFile();
    await timed('check again', () => step(again, 'check'));
    expect((await owner.call('GET', `/imports/${again}`)).body.rows).toMatchObject({ new: 0, same: count });
  }
  const { rows, results } = (await owner.call('GET', `/imports/${id}`)).body;
  console.log(`100,000 links, ${bytes.length} bytes, seconds: ${JSON.stringify(seconds)}`);
  expect([rows, results]).toEqual([
    { new: count, same: 0, conflict: 0, unsupported: 0 },
    { created: count, taken: 0, removed: count, kept: 0 },
  ]);
});
