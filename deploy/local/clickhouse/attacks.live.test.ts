/** Attacks that this server must reject: file access, access to other machines, and requests without the password. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { builtClickHouse, type ClickHouseServerProcess, startClickHouse } from './spawn.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-attacks-'));
const outside = mkdtempSync(join(tmpdir(), 'signpost-outside-'));
const secretFile = join(outside, 'secret-key');
const written = join(outside, 'written');
let server: ClickHouseServerProcess;

interface Answer {
  readonly status: number;
  readonly text: string;
}

function send(method: string, path: string, headers: Record<string, string>, body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port: server.port, method, path, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

function basic(role: 'signpost' | 'reader'): Record<string, string> {
  const { username, password } = new URL(server.urlOf(role));
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}

beforeAll(async () => {
  writeFileSync(secretFile, 'k1:hush');
  server = await startClickHouse({ dataDir: folder, port: 0, entry: builtClickHouse() });
  await send('POST', '/', basic('signpost'), 'CREATE TABLE kept (line String) ENGINE = MergeTree ORDER BY line');
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
  rmSync(outside, { recursive: true });
});

const statements = (file: string, out: string): string[] => [
  `SELECT * FROM file('${file}', 'LineAsString')`,
  `SELECT * FROM File ('${file}', 'LineAsString')`,
  `SELECT * FROM \`file\`('${file}', 'LineAsString')`,
  `SELECT * FROM "file"/* */('${file}', 'LineAsString')`,
  `SELECT file('${file}')`,
  `WITH file('${file}') AS x SELECT x`,
  `FROM file('${file}', 'LineAsString') SELECT *`,
  `SELECT * FROM '${file}'`,
  `SELECT * FROM numbers(1), '${file}'`,
  `SELECT * FROM numbers(1) AS where, '${file}'`,
  `SELECT * FROM numbers(1) a JOIN numbers(1) b ON 1, '${file}'`,
  `SELECT * FROM (SELECT 1) JOIN '${file}' ON 1`,
  `SELECT * FROM default.'${file}'`,
  `SELECT * FROM \`${file}\``,
  `SELECT * FROM default."${file}"`,
  `SELECT * FROM merge('default', '.*')`,
  `DESCRIBE TABLE file('${file}')`,
  `DESCRIBE '${file}'`,
  `EXPLAIN SELECT * FROM file('${file}', 'LineAsString')`,
  `CREATE TABLE t1 (line String) ENGINE = File(LineAsString, '${file}')`,
  `CREATE TABLE t2 AS file('${file}', 'LineAsString')`,
  `CREATE TABLE t3 AS '${file}'`,
  `CREATE VIEW v AS SELECT file('${file}')`,
  `CREATE DATABASE d ENGINE = Filesystem('/')`,
  `CREATE DICTIONARY d (a String) PRIMARY KEY a SOURCE(FILE(path '${file}' format 'LineAsString')) LAYOUT(FLAT())`,
  `CREATE FUNCTION f AS (x) -> file(x)`,
  `ATTACH TABLE t4 FROM '${outside}' (a UInt8) ENGINE = MergeTree ORDER BY a`,
  `SELECT 1 FORMAT Template SETTINGS format_template_row = '${file}'`,
  `SELECT 1 FORMAT \`Template\` SETTINGS format_template_row = '${file}'`,
  `SELECT formatRow('Template', 1) SETTINGS format_template_row = '${file}'`,
  `INSERT INTO kept FROM INFILE '${file}' FORMAT LineAsString`,
  `INSERT INTO kept VALUES (file('${file}'))`,
  `INSERT INTO kept SELECT * FROM file('${file}', 'LineAsString')`,
  `SELECT $$'$$, file('${file}'), $$'$$`,
  `SELECT $a$'$a$ FROM '${file}' -- '`,
  `SELECT 1 /* /* */ ' */ , file('${file}') -- '`,
  `SELECT ‘a'b’, file('${file}') -- '`,
  `SELECT 1; SELECT file('${file}')`,
  `SELECT 1 INTO OUTFILE '${out}'`,
  `SELECT 1 INTO/**/OUTFILE '${out}' APPEND`,
  `SELECT 1 INTO OUTFILE '${out}' TRUNCATE FORMAT TSV`,
  `INSERT INTO FUNCTION file('${out}', 'LineAsString') SELECT 'x'`,
  `INSERT INTO TABLE FUNCTION file('${out}', 'LineAsString') SELECT 'x'`,
  `BACKUP DATABASE default TO File('${out}')`,
  `CREATE TABLE t5 (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '${out}/')`,
  "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
  "SELECT * FROM s3('http://127.0.0.1:1/a/b', 'LineAsString')",
  "SELECT * FROM remote('127.0.0.1:1', system.one)",
  "SELECT * FROM executable('id', 'TSV', 'a String')",
  "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
  "SELECT * FROM cluster('default', system.one)",
  "SELECT * FROM redis('127.0.0.1:1', 'a', 'a String')",
  "SELECT aiGenerate('x', 'y')",
  "CREATE TABLE t6 (a String) ENGINE = URL('http://127.0.0.1:1/', 'TSV')",
  'SYSTEM SHUTDOWN',
  'SYSTEM RELOAD CONFIG',
  'KILL QUERY WHERE 1',
  'SET readonly = 0',
];

const attacks = statements(secretFile, written);

test.each(attacks)('no user of this server can run %s', async (sql) => {
  const before = readdirSync(outside);
  for (const role of ['signpost', 'reader'] as const) {
    const url = `/?query=${encodeURIComponent(sql)}`;
    for (const answer of [await send('POST', '/', basic(role), sql), await send('GET', url, basic(role))]) {
      expect([403, 400]).toContain(answer.status);
      expect(answer.text).not.toContain('hush');
    }
  }
  expect(readdirSync(outside)).toEqual(before);
  expect(existsSync(written)).toBe(false);
});

const endings = [
  ...['where', 'prewhere', 'group', 'having', 'order', 'limit', 'offset', 'union', 'except', 'intersect', 'settings'],
  ...[
    'format',
    'window',
    'qualify',
    'on',
    'using',
    'select',
    'values',
    'set',
    'sample',
    'final',
    'comment',
    'to',
    'into',
  ],
];

test.each(endings)('%s as the name of a table does not open a file of that name', async (word) => {
  for (const table of [word, `as ${word}`, `join numbers(1) ${word}`, `a on 1 ${word}`, `a using ${word}`]) {
    const answer = await send('POST', '/', basic('signpost'), `SELECT * FROM numbers(1) ${table}, '${secretFile}'`);
    expect(answer.status).not.toBe(200);
    expect(answer.text).not.toContain('hush');
  }
});

const hidden: [string, string, Record<string, string>][] = [
  ['a setting of the URL', '/?format_template_row=x', {}],
  ['a format of the URL', '/?default_format=Template', {}],
  ['a format of the header', '/', { 'x-clickhouse-format': 'Template' }],
];
test.each(hidden)('a file cannot be reached through %s', async (_, path, headers) => {
  expect((await send('POST', path, { ...basic('signpost'), ...headers }, 'SELECT 1')).status).toBe(403);
});

test('without a password, or with a wrong one, every request is rejected, including /ping', async () => {
  const { password } = new URL(server.url);
  const wrong: Record<string, string>[] = [
    {},
    { authorization: `Basic ${Buffer.from('signpost:').toString('base64')}` },
    { authorization: `Basic ${Buffer.from(`default:${password}`).toString('base64')}` },
    { 'x-clickhouse-user': 'signpost', 'x-clickhouse-key': 'wrong' },
  ];
  for (const headers of wrong) {
    for (const path of ['/', '/ping', '/?query=SELECT%201', `/?user=signpost&password=${password}&query=SELECT%201`]) {
      expect((await send('GET', path, headers)).status).toBe(403);
    }
  }
  const right = { 'x-clickhouse-user': 'signpost', 'x-clickhouse-key': password };
  expect(await send('GET', '/?query=SELECT%201', right)).toEqual({ status: 200, text: '1\n' });
});

test('a page in a browser gets no access, with or without the password', async () => {
  const sql = `/?query=${encodeURIComponent('SELECT 1')}`;
  for (const headers of [
    { origin: 'http://127.0.0.1' },
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-mode': 'no-cors' },
  ]) {
    expect((await send('GET', sql, { ...basic('signpost'), ...headers })).status).toBe(403);
  }
});

test('the reader can only read, whatever it sends', async () => {
  const reader = basic('reader');
  expect((await send('POST', '/', reader, 'SELECT count() FROM kept')).text).toBe('0\n');
  for (const sql of [
    "INSERT INTO kept VALUES ('x')",
    'INSERT INTO kept FORMAT TSV\nx',
    'DROP TABLE kept',
    'SHOW TABLES',
  ]) {
    expect((await send('POST', '/?readonly=0', reader, sql)).status).toBe(403);
  }
  const clickhouse = new ClickHouse({ url: server.urlOf('reader') });
  expect(await clickhouse.query('SELECT count() AS n FROM kept')).toEqual([{ n: 0 }]);
  expect(await clickhouse.isReachable()).toBe(true);
  await clickhouse.close();
});

test('only the owner of the password files can read them', () => {
  for (const role of ['signpost', 'reader'])
    expect(statSync(join(folder, `password-${role}`)).mode & 0o777).toBe(0o600);
});
