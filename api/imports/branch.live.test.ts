/** Imports with a Branch key, against a loopback server that answers in Branch's documented format. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { reencryptImportKeys } from '#api/admin/secret-rotation.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { Encryption, newSecretKey, parseSecretKeys } from '#common/encryption.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { Tenancy } from '#common/stores/tenancy.ts';
import { systemTime, type Time } from '#common/time.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { BranchLinks } from './branch-links.ts';
import { branchKeyContext } from './import.ts';
import { ImportWorker } from './import-worker.ts';

const key = 'key_live_kaFuWw8WvY7yn1d9yYiP8gokwqjV0Swt';
const branchHost = 'example.app.link';
const urlOf = (n: number) => `https://${branchHost}/link${n}`;
const unused = new AbortController().signal;

let branch: Receiver;
let api: ApiForTest;
let owner: Member;
/** How often each link was requested. */
let asked: Map<string, number>;

beforeAll(async () => {
  branch = await receiverForTest();
  api = await apiForTest({
    BRANCH_API_URL: `http://127.0.0.1:${branch.port}`,
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.1/32',
  });
  owner = await api.member();
});
beforeEach(() => {
  asked = new Map();
  branch.received.length = 0;
  branchAnswers(() => null);
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(async () => {
  await api.stop();
  await branch.stop();
});

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly headers?: Record<string, string>;
}

/** Answers as Branch documents for GET /v1/url. `instead` can override this by link and number of earlier requests. */
function branchAnswers(instead: (code: string, before: number) => Answer | 'cut' | null): void {
  branch.answer = (response, { method, path }) => {
    const query = new URL(path, 'http://branch').searchParams;
    const url = new URL(query.get('url') ?? 'about:blank');
    const code = url.pathname.slice(1);
    const before = asked.get(code) ?? 0;
    asked.set(code, before + 1);
    const answer = instead(code, before) ?? refusalOf(method, path, query.get('branch_key'), url);
    if (answer === 'cut') return void response.destroy();
    const { status, body, headers } = answer ?? { status: 200, body: linkAt(url) };
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
    response.end(JSON.stringify(body ?? { error: { code: status, message: `status ${status}` } }));
  };
}

function refusalOf(method: string, path: string, given: string | null, url: URL): Answer | null {
  if (method !== 'GET' || !path.startsWith('/v1/url?')) return { status: 404 };
  if (given !== key)
    return { status: 400, body: { error: { code: 400, message: `Invalid or missing Branch key ${given}` } } };
  return url.host === branchHost ? null : { status: 404 };
}

function linkAt(url: URL): object {
  const code = url.pathname.slice(1);
  return {
    channel: 'email',
    campaign: 'spring',
    feature: 'share-button',
    stage: 'new user',
    tags: ['monday'],
    data: {
      '~id': '123456789',
      '~channel': 'email',
      url: url.href,
      $one_time_use: false,
      $desktop_url: `https://www.example.com/${code}`,
      $deeplink_path: `article/${code}`,
      $og_title: `Title of ${code}`,
      photo_id: '50',
    },
    alias: `alias-of-${code}`,
    type: 0,
  };
}

async function newApp(): Promise<{ id: string; host: string }> {
  return (await owner.call('POST', '/apps', { name: 'Branch' })).body;
}

/** An import whose file lists links, before its dry run. */
async function begun(appId: string, file: string, more: object = {}): Promise<string> {
  const given = { app_id: appId, source: 'branch', branch_key: key, hosts: [branchHost], ...more };
  const { status, body } = await owner.call('POST', '/imports', given);
  expect([status, body.error]).toEqual([201, undefined]);
  const sent = await fetch(`${api.url}/imports/${body.id}/parts/1`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'text/csv', 'x-forwarded-proto': 'https' },
    body: file,
  });
  expect(sent.status).toBe(200);
  expect((await owner.call('POST', `/imports/${body.id}/check`, {})).status).toBe(200);
  return body.id;
}

const listOf = (count: number) => Array.from({ length: count }, (_, n) => urlOf(n)).join('\n');
const read = async (id: string) => (await owner.call('GET', `/imports/${id}`)).body;
const rowsOf = async (id: string) => (await owner.call('GET', `/imports/${id}/rows?limit=100`)).body.data;

async function step(id: string, name: 'confirm' | 'undo') {
  expect((await owner.call('POST', `/imports/${id}/${name}`, {})).status).toBe(200);
  while (await api.imports.work(id));
  return read(id);
}

async function checked(id: string) {
  while (await api.imports.work(id));
  return read(id);
}

async function sealedKey(id: string): Promise<string | null> {
  const sql = 'SELECT branch_key_ciphertext AS sealed FROM imports WHERE id = $1';
  return (await api.db.query<{ sealed: string | null }>(sql, [id]))[0]?.sealed ?? null;
}

test('a list of URLs is imported from Branch once; a second import finds the links, and undo removes them', async () => {
  const app = await newApp();
  const id = await begun(app.id, listOf(60));
  expect(await checked(id)).toMatchObject({
    state: 'checked',
    reads_branch: true,
    rows: { new: 60, same: 0, conflict: 0, unsupported: 0 },
  });
  expect([...asked.values()]).toEqual(Array.from({ length: 60 }, () => 1));
  expect(await step(id, 'confirm')).toMatchObject({ state: 'imported', results: { created: 60 } });
  const [row] = await rowsOf(id);
  expect((await owner.call('GET', `/links/${row.link_id}`)).body).toMatchObject({
    short_code: 'link0',
    other_codes: ['alias-of-link0'],
    path: '/article/link0',
    fallback_url: 'https://www.example.com/link0',
    ios_url: null,
    android_url: null,
    campaign: 'spring',
    utm_source: 'email',
    utm_medium: 'share-button',
    tags: ['monday'],
    og_title: 'Title of link0',
    data: { photo_id: '50', '~stage': 'new user' },
    source: 'import',
  });
  const again = await begun(app.id, listOf(60));
  expect(await checked(again)).toMatchObject({ rows: { new: 0, same: 60, conflict: 0, unsupported: 0 } });
  expect(await step(id, 'undo')).toMatchObject({ state: 'undone', results: { removed: 60 } });
});

test('the key is stored encrypted with its import, never shown, and deleted when the dry run ends', async () => {
  const app = await newApp();
  const id = await begun(app.id, listOf(2));
  const sealed = await sealedKey(id);
  expect(sealed).not.toContain(key);
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  expect(encryption.decrypt(sealed ?? '', branchKeyContext(id))).toBe(key);
  const rotated = new Encryption(parseSecretKeys(`${newSecretKey('newer')},${api.secretKey}`));
  expect(await reencryptImportKeys(api.db, rotated)).toBe(1);
  expect(rotated.decrypt((await sealedKey(id)) ?? '', branchKeyContext(id))).toBe(key);
  await api.db.execute('UPDATE imports SET branch_key_ciphertext = $2 WHERE id = $1', [id, sealed]);
  expect(JSON.stringify(await checked(id))).not.toContain(key);
  expect(await sealedKey(id)).toBeNull();
  const keeps = () => api.db.execute('UPDATE imports SET branch_key_ciphertext = $2 WHERE id = $1', [id, sealed]);
  await expect(keeps()).rejects.toThrow(/imports_.*check/);
  // A key that Branch refuses appears in no message.
  const wrong = `${key}x`;
  const failed = await begun(app.id, listOf(3), { branch_key: wrong });
  const { state, problem } = await checked(failed);
  expect([state, problem]).toEqual(['failed', expect.stringContaining('none of the first 3 links')]);
  expect(problem).toContain('HTTP 400: Invalid or missing Branch key …');
  expect(await sealedKey(failed)).toBeNull();
});

test('requests that fail temporarily are retried; links that Branch refuses are reported with their row', async () => {
  const app = await newApp();
  branchAnswers((code, before) => {
    if (code === 'link1' && before < 2) return { status: 429, headers: { 'retry-after': '0' } };
    if (code === 'link2' && before === 0) return { status: 503, headers: { 'retry-after': '0' } };
    if (code === 'link3' && before === 0) return 'cut';
    if (code === 'link4') return { status: 404, body: { error: { code: 404, message: 'no such link' } } };
    if (code === 'link5') return { status: 200, body: {} };
    if (code === 'link6') return { status: 302, headers: { location: 'http://127.0.0.1/' } };
    return null;
  });
  const file = `url,created\n${Array.from({ length: 7 }, (_, n) => `${urlOf(n)},2024-01-0${n + 1}`).join('\n')}\nhttps://else.example/x,2024-01-01\n`;
  const id = await begun(app.id, file);
  expect(await checked(id)).toMatchObject({ state: 'checked', rows: { new: 4, unsupported: 4 } });
  expect(Object.fromEntries(asked)).toEqual({ link0: 1, link1: 3, link2: 2, link3: 2, link4: 1, link5: 1, link6: 1 });
  const rows = await rowsOf(id);
  expect(rows.map(({ outcome, reason, message }: Record<string, string>) => [outcome, reason, message])).toEqual([
    ...Array.from({ length: 4 }, () => ['new', null, null]),
    ['unsupported', 'not_read', 'Branch returned no link for this URL: HTTP 404: no such link'],
    ['unsupported', 'not_read', 'Branch returned no link for this URL: its response contains no link'],
    ['unsupported', 'not_read', 'Branch returned no link for this URL: HTTP 302: status 302'],
    ['unsupported', 'other_host', `is on else.example, not on ${app.host}`],
  ]);
  await step(id, 'confirm');
  const { created_at } = (await owner.call('GET', `/links/${(await rowsOf(id))[1].link_id}`)).body;
  expect(created_at).toBe('2024-01-02T00:00:00.000Z');
});

test('while Branch does not answer, the import waits, continues from the same row, and fails after an hour', {
  tags: ['slow'],
}, async () => {
  const app = await newApp();
  let isSilent = true;
  branchAnswers((code) => (isSilent && code === 'link52' ? { status: 500, headers: { 'retry-after': '0' } } : null));
  const id = await begun(app.id, listOf(54));
  expect(await checked(id)).toMatchObject({ state: 'checking', progress: { rows_read: 52 } });
  const held = `SELECT worker IS NULL AND worker_until > now() AS is_held FROM imports WHERE id = $1`;
  expect(await api.db.query(held, [id])).toEqual([{ is_held: true }]);
  expect(await api.imports.work(id)).toBe(false);
  const goOn = () =>
    api.db.execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id]);
  isSilent = false;
  await goOn();
  expect(await checked(id)).toMatchObject({ state: 'checked', rows: { new: 54 } });
  expect(asked.get('link51')).toBe(1);
  isSilent = true;
  const other = await begun((await newApp()).id, urlOf(52));
  expect((await checked(other)).state).toBe('checking');
  const hourLater = `UPDATE imports SET worker_until = now() - interval '1 second', updated_at = now() - interval '61 minutes' WHERE id = $1`;
  await api.db.execute(hourLater, [other]);
  const { state, problem } = await checked(other);
  expect([state, problem]).toEqual(['failed', expect.stringContaining('for an hour: HTTP 500')]);
  expect(await sealedKey(other)).toBeNull();
});

test('a response that cannot be stored or read as a link is reported with its row, and the others are imported', async () => {
  const app = await newApp();
  const usual = (code: string) => linkAt(new URL(`https://${branchHost}/${code}`)) as { data: object };
  const changed = (code: string, change: object) => ({ status: 200, body: { ...usual(code), ...change } });
  const withData = (code: string, data: object) => changed(code, { data: { ...usual(code).data, ...data } });
  const cases: readonly [(code: string) => Answer, field: string, message: string][] = [
    [(code) => withData(code, { $og_title: 'a\0b' }), 'og_title', 'contains a NUL'],
    [(code) => withData(code, { $marketing_title: 'a\ud800' }), 'title', 'contains a NUL or an unpaired surrogate'],
    [(code) => withData(code, { text: '\ud800' }), 'data', 'contains a NUL or an unpaired surrogate'],
    [(code) => withData(code, { 'a\0b': 1 }), 'data', 'has a key that contains a NUL'],
    [(code) => changed(code, { tags: ['\udc00'] }), 'tags', 'contains a NUL or an unpaired surrogate'],
    [(code) => withData(code, { $ios_url: 'https://a.example/\ud800' }), 'ios_url', 'an unpaired surrogate'],
    [(code) => changed(code, { alias: '//[' }), 'other_codes', 'may contain letters'],
    [() => ({ status: 400, body: { error: { message: `${'x '.repeat(99)}x😀😀` } } }), 'short_url', 'x😀'],
    [() => ({ status: 400, body: { error: 'a\0\ud800b' } }), 'short_url', 'HTTP 400: a\ufffdb'],
  ];
  branchAnswers((code) => cases[Number(code.slice(4))]?.[0](code) ?? null);
  const stringified = branch.answer;
  // JSON.stringify cannot write structures this deep.
  const nested = '['.repeat(20_000) + ']'.repeat(20_000);
  const raw = [`{"data":{"deep":${nested}}}`, `{"data":{},"tags":[${nested}]}`, `{"error":${nested}}`];
  branch.answer = (response, request) => {
    const url = new URL(request.path, 'http://branch').searchParams.get('url') ?? '';
    const body = raw[Number(url.slice(urlOf(0).length - 1)) - cases.length];
    if (body === undefined) return stringified(response, request);
    response.writeHead(body.startsWith('{"error') ? 400 : 200, { 'content-type': 'application/json' });
    response.end(body);
  };
  const id = await begun(app.id, listOf(cases.length + raw.length + 2));
  expect(await checked(id)).toMatchObject({ state: 'checked', problem: null, rows: { new: 3, unsupported: 11 } });
  const rows = await rowsOf(id);
  for (const [at, [, field, message]] of cases.entries())
    expect(rows[at]).toMatchObject({ outcome: 'unsupported', field, message: expect.stringContaining(message) });
  expect(rows.slice(cases.length).map(({ outcome, field }: Record<string, string>) => [outcome, field])).toEqual([
    ['unsupported', 'data'],
    ['new', null],
    ['unsupported', 'short_url'],
    ['new', null],
    ['new', null],
  ]);
  expect(await step(id, 'confirm')).toMatchObject({ state: 'imported', results: { created: 3 } });
});

// The second case has links at the beginning and at the end of a chunk, with others between and behind them.
testCostlyCases(
  [
    { where: 'in the middle', count: 4, silent: [2] },
    { where: 'at the beginning and at the end of the first chunk', count: 54, silent: [0, 1, 2, 3, 4, 5, 6, 7, 49] },
    { where: 'at the beginning of a chunk, with none behind them', count: 53, silent: [50, 51, 52] },
    { where: 'at the end', count: 4, silent: [2, 3] },
    { where: 'alone at the beginning of a chunk', count: 51, silent: [50] },
    { where: 'at the beginning of the file', count: 14, silent: [0, 1, 2, 3, 4, 5, 6, 7] },
  ],
  1,
  'links $where that are never answered are reported after 5 rounds in which others were, and the import goes on',
  async ({ count, silent }) => {
    const app = await newApp();
    branchAnswers((code) =>
      silent.includes(Number(code.slice(4))) ? { status: 500, headers: { 'retry-after': '0' } } : null,
    );
    const id = await begun(app.id, listOf(count));
    // Before these rounds, there may be one without any link that Branch answers; after them, the following rows are
    // requested.
    for (let round = 0; round <= 24 && (await checked(id)).state === 'checking'; round++)
      await api.db.execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id]);
    const unsupported = silent.length;
    expect(await read(id)).toMatchObject({ state: 'checked', rows: { new: count - unsupported, unsupported } });
    const rows = await rowsOf(id);
    for (const n of silent) {
      const message = 'Branch did not respond in 5 attempts: HTTP 500';
      expect(rows[n]).toMatchObject({ outcome: 'unsupported', reason: 'not_read', message });
    }
    await owner.call('DELETE', `/imports/${id}`);
  },
);

test('a dry run ends before its next chunk if its app was deleted', async () => {
  const app = await newApp();
  const usual = branch.answer;
  branch.answer = (response, request) => {
    const isFirst = request.path.includes('link0&');
    const sql = 'UPDATE apps SET deleted_at = now() WHERE id = ANY ($1)';
    void api.db.execute(sql, [isFirst ? [app.id] : []]).then(() => usual(response, request));
  };
  const id = await begun(app.id, listOf(60));
  await checked(id);
  const [row] = await api.db.query('SELECT state, problem, branch_key_ciphertext FROM imports WHERE id = $1', [id]);
  expect(row).toEqual({ state: 'failed', problem: 'The app was deleted.', branch_key_ciphertext: null });
  expect(asked.has('link50')).toBe(false);
});

/** Another API process. */
function process(time: Time = systemTime): ImportWorker {
  const { db } = api;
  const links = reader(['127.0.0.1'], time);
  const encryption = new Encryption(parseSecretKeys(api.secretKey));
  const parts = { db, tenancy: new Tenancy(db), clock: systemClock, log: { warn: () => undefined } };
  return new ImportWorker({
    ...parts,
    deliverChanges: async () => true,
    branch: { links, encryption, maySend: () => true },
  });
}

test('processes that end between and within chunks store every row once, and ask again only for the chunk in which they ended', {
  tags: ['slow'],
}, async () => {
  const app = await newApp();
  const id = await begun(app.id, listOf(120));
  const lapse = () =>
    api.db.execute(`UPDATE imports SET worker_until = now() - interval '1 second' WHERE id = $1`, [id]);
  await process().work(id, () => true);
  await lapse();
  expect((await read(id)).progress.rows_read).toBe(50);
  // The second process hangs in the middle of its chunk and is considered dead.
  let release = () => {};
  const hanging = new Promise<void>((done) => {
    release = done;
  });
  const answer = branch.answer;
  branch.answer = (response, request) => {
    if (request.path.includes('link80') && !asked.has('link80')) {
      asked.set('link80', 0);
      void hanging.then(() => answer(response, request));
    } else answer(response, request);
  };
  const second = process().work(id);
  await expect.poll(() => asked.has('link80'), { timeout: 20_000 }).toBe(true);
  await lapse();
  await process().work(id);
  release();
  await second;
  expect(await read(id)).toMatchObject({
    state: 'checked',
    rows: { new: 120, same: 0, conflict: 0, unsupported: 0 },
  });
  const lines = await api.db.query<{ line: number }>(
    'SELECT line FROM import_rows WHERE import_id = $1 ORDER BY number',
    [id],
  );
  expect(lines.map(({ line }) => line)).toEqual(Array.from({ length: 120 }, (_, n) => n + 1));
  const twice = [...asked].filter(([, times]) => times > 1).map(([code]) => Number(code.slice(4)));
  expect(twice.every((n) => n >= 50 && n < 100)).toBe(true);
});

test('while a process reads from Branch, it reads the files of other imports, and imports from Branch take turns', {
  tags: ['slow'],
}, async () => {
  const codes: string[] = [];
  const usual = branch.answer;
  let release = () => {};
  const held = new Promise<void>((done) => {
    release = done;
  });
  branch.answer = (response, request) => {
    const url = new URL(new URL(request.path, 'http://branch').searchParams.get('url') ?? '');
    codes.push(url.pathname.slice(1));
    void held.then(() => usual(response, request));
  };
  const names = ['first', 'second'];
  const ids: string[] = [];
  for (const name of names) {
    const list = Array.from({ length: 300 }, (_, n) => `https://${branchHost}/${name}${n}`).join('\n');
    ids.push(await begun((await newApp()).id, list));
  }
  const busy = process(drivenTime());
  busy.start();
  await expect.poll(() => codes.length, { timeout: 20_000 }).toBeGreaterThan(0);
  const file = 'code,url\none,https://www.example.com/one\n';
  const plain = await begun((await newApp()).id, file, { source: 'csv', branch_key: undefined, hosts: [] });
  await expect.poll(async () => (await read(plain)).state, { timeout: 20_000 }).toBe('checked');
  release();
  for (const id of ids) await expect.poll(async () => (await read(id)).rows.new, { timeout: 60_000 }).toBe(300);
  await busy.stop();
  const firstOf = (name: string) => codes.findIndex((code) => code.startsWith(name));
  const lastOf = (name: string) => codes.findLastIndex((code) => code.startsWith(name));
  expect(firstOf('second')).toBeLessThan(lastOf('first'));
  for (const id of [...ids, plain]) await owner.call('DELETE', `/imports/${id}`);
});

test('a process that stops does not wait for Branch', async () => {
  const id = await begun((await newApp()).id, listOf(3));
  branch.answer = () => asked.set('hangs', 1);
  const stopping = process();
  stopping.start();
  await expect.poll(() => asked.has('hangs'), { timeout: 20_000 }).toBe(true);
  const before = performance.now();
  await stopping.stop();
  expect(performance.now() - before).toBeLessThan(3_000);
  const left = 'SELECT state, worker FROM imports WHERE id = $1';
  expect(await api.db.query(left, [id])).toEqual([{ state: 'checking', worker: null }]);
  branchAnswers(() => null);
  expect(await checked(id)).toMatchObject({ state: 'checked', rows: { new: 3 } });
});

/** Waits of hours take no time. */
function drivenTime(): Time {
  let nowMs = 0;
  const after = (ms: number, callback: () => void) => {
    return setImmediate(() => {
      nowMs = Math.max(nowMs, nowMs + ms);
      callback();
    });
  };
  return { ...systemTime, elapsed: () => nowMs, after };
}

function reader(reachable: string[], time: Time = systemTime): BranchLinks {
  const url = `http://127.0.0.1:${branch.port}`;
  return new BranchLinks({
    url,
    resolve: () => Promise.resolve([]),
    reachable: new ReachableAddresses(reachable),
    time,
  });
}

test('at most 8 requests run at a time, and 25 start per second', async () => {
  let [open, most] = [0, 0];
  const usual = branch.answer;
  branch.answer = (response, request) => {
    most = Math.max(most, ++open);
    setTimeout(() => {
      open--;
      usual(response, request);
    }, 400);
  };
  const urls = Array.from({ length: 40 }, (_, n) => new URL(urlOf(n)));
  const before = performance.now();
  const answers = await reader(['127.0.0.1']).ask({ key, urls, signal: unused });
  const seconds = (performance.now() - before) / 1000;
  expect(answers.every((one) => one?.kind === 'link')).toBe(true);
  expect(most).toBeLessThanOrEqual(8);
  expect(40 / seconds).toBeLessThanOrEqual(26);
});

test('an address that is not public is not requested, and a response that is too long is rejected', async () => {
  const urls = [new URL(urlOf(1))];
  const [inside] = await reader([], drivenTime()).ask({ key, urls, signal: unused });
  expect(inside).toEqual({ kind: 'unanswered', message: 'address_not_allowed' });
  expect(branch.received).toEqual([]);
  branchAnswers(() => ({ status: 200, body: { data: { text: 'x'.repeat(100_000) } } }));
  const [long] = await reader(['127.0.0.1']).ask({ key, urls, signal: unused });
  expect(long).toEqual({ kind: 'refused', message: 'its response is too long' });
});

test('a key that Branch repeats in an error, in any form, appears in no row of the report', async () => {
  const escaped = [...key].map((one) => `%${one.charCodeAt(0).toString(16)}`).join('');
  const hex = Buffer.from(key).toString('hex');
  const secret = key.slice('key_live_'.length);
  const forms = [
    ...[key, encodeURIComponent(key), escaped, escaped.toUpperCase(), hex, hex.match(/../g)?.join(' ') ?? ''],
    ...[Buffer.from(key), Buffer.from(`k=${key}`), Buffer.from(`key=${key}&x`)].map((one) => one.toString('base64')),
    ...[Buffer.from(key).toString('base64url'), [...Buffer.from(key)].join(', '), [...key].reverse().join('')],
    ...[secret, secret.toLowerCase(), secret.match(/.{1,8}/g)?.join(' ') ?? '', [...secret].join(' ')],
    Buffer.from(secret)
      .toString('base64')
      .match(/.{1,16}/g)
      ?.join('\n') ?? '',
  ];
  branchAnswers((code) => ({ status: 400, body: { error: { message: `Wrong: ${forms[Number(code.slice(4))]}.` } } }));
  const urls = forms.map((_, n) => new URL(urlOf(n)));
  const answers = await reader(['127.0.0.1']).ask({ key, urls, signal: unused });
  const kept = answers.map((one) => (one !== null && 'message' in one ? one.message : ''));
  for (const message of kept) expect(['HTTP 400', 'HTTP 400: Wrong: …']).toContain(message);
  branchAnswers(() => ({ status: 403, body: { error: { message: 'Your plan has no access to this endpoint.' } } }));
  const [plain] = await reader(['127.0.0.1']).ask({ key, urls: [new URL(urlOf(0))], signal: unused });
  expect(plain).toEqual({ kind: 'refused', message: 'HTTP 403: Your plan has no access to this endpoint.' });
});

test('a key is accepted only for Branch, and only in its format', async () => {
  const app = await newApp();
  const refused = async (more: object) => {
    const { status, body } = await owner.call('POST', '/imports', { app_id: app.id, branch_key: key, ...more });
    return [status, body.error?.fields ?? body.error?.errors ?? body.error];
  };
  expect((await refused({ source: 'csv' }))[0]).toBe(400);
  for (const branch_key of ['', 'key', 'key_live_', 'secret_live_abc', 'key_live_a b', 7])
    expect((await refused({ source: 'branch', branch_key }))[0]).toBe(400);
  const id = await begun(app.id, 'name\nnothing\n');
  expect(await checked(id)).toMatchObject({ state: 'failed', problem: expect.stringContaining('columns.short_url') });
});
