import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { builtClickHouse, startClickHouse } from './spawn.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-clickhouse-'));
let server: LocalServer;
let client: ClickHouse;
let address = '';
let authorization = '';

beforeAll(async () => {
  server = await startClickHouse({ dataDir: folder, port: 0, entry: builtClickHouse() });
  client = new ClickHouse({ url: server.url });
  const { host, username, password } = new URL(server.url);
  address = `http://${host}`;
  authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  await client.command('CREATE TABLE numbers_kept (a UInt32, s String) ENGINE = MergeTree ORDER BY a');
});

afterAll(async () => {
  await client.close();
  await server.stop();
  rmSync(folder, { recursive: true });
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Does not use fetch, which sends a browser's header (Sec-Fetch-Mode). */
function ask(
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string | Uint8Array,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(`${address}${path}`, { method, headers: { authorization, ...headers } }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: new Headers(response.headers as Record<string, string>),
          text: Buffer.concat(chunks).toString(),
        }),
      );
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

const post = (path: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  ask('POST', path, headers, body);

async function count(where = '1'): Promise<number> {
  const rows = await client.query<{ n: number }>(`SELECT count() AS n FROM numbers_kept WHERE ${where}`);
  return rows[0]?.n ?? -1;
}

async function failureOf(work: Promise<unknown>): Promise<ClickHouseFailure> {
  const thrown: unknown = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (thrown instanceof ClickHouseFailure) return thrown;
  throw new Error(`not a ClickHouse failure: ${String(thrown)}`);
}

test.each([
  "it's",
  'a\\b\\n',
  "\\'",
  '\t\n\r',
  '日本 🙂 é',
  '{x:String}',
  '; DROP TABLE numbers_kept',
  '\\N',
  'a\0b',
  '',
])('a parameter arrives unchanged: %j', async (value) => {
  const sql = 'SELECT {s:String} AS s, {a:Array(String)} AS a, {n:Nullable(String)} AS n';
  expect(await client.query(sql, { s: value, a: [value, value], n: null })).toEqual([
    { s: value, a: [value, value], n: null },
  ]);
});

test('parameters, settings and databases of concurrent queries do not mix', async () => {
  await client.command('CREATE DATABASE IF NOT EXISTS other');
  await client.command('CREATE TABLE IF NOT EXISTS other.only_there (a UInt8) ENGINE = Memory');
  const there = new ClickHouse({ url: `${server.url}/other` });
  const asks = Array.from({ length: 60 }, async (_, n) => {
    const one = n % 2 === 0 ? client : there;
    const sql = "SELECT {n:UInt32} AS n, getSetting('max_threads') AS t, currentDatabase() AS d";
    const [row] = await one.query(sql, { n }, { max_threads: 1 + (n % 7) });
    expect(row).toEqual({ n, t: 1 + (n % 7), d: n % 2 === 0 ? 'default' : 'other' });
  });
  await Promise.all(asks);
  expect(await there.query('SELECT name FROM system.tables WHERE database = currentDatabase()')).toEqual([
    { name: 'only_there' },
  ]);
  expect((await failureOf(client.query('SELECT * FROM only_there'))).code).toBe(60);
  await there.close();
});

test('a database that does not exist gets a 404, without falling back to another one', async () => {
  const answer = await post('/?database=nowhere', 'SELECT 1');
  expect([answer.status, answer.headers.get('x-clickhouse-exception-code')]).toEqual([404, '81']);
});

test.each([
  ['selec 1', 403, 497],
  ['SELECT 1 +', 400, 62],
  ['SELECT 1; SELECT 2', 400, 62],
  ['SELECT * FROM nowhere', 404, 60],
  ['SELECT nothing', 404, 47],
  ['SELECT {x:String}', 400, 456],
  ['INSERT INTO numbers_kept FORMAT JSONEachRow {"a":', 400, 117],
  ['SELECT throwIf(1)', 500, 395],
  ['SELECT sum(sipHash64(number)) FROM numbers(100000000000) SETTINGS max_execution_time = 0.1', 408, 159],
])('a failure has its code in the header and the text, with the right status: %s', async (sql, status, code) => {
  const answer = await post('/', sql);
  expect(answer.status).toBe(status);
  if (code === 117) expect(answer.text).toMatch(/^Code: \d+\. DB::Exception: /);
  else {
    expect(answer.headers.get('x-clickhouse-exception-code')).toBe(String(code));
    expect(answer.text).toMatch(new RegExp(`^Code: ${code}\\. DB::Exception: `));
  }
});

test.each([
  'INSERT INTO numbers_kept VALUES (1, 2)',
  'CREATE TABLE x (a UInt8) ENGINE = Memory',
  'DROP TABLE numbers_kept',
  'ALTER TABLE numbers_kept DELETE WHERE 1',
  "SELECT * FROM file('/etc/passwd', 'LineAsString')",
  "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
  'SET readonly = 0',
  'SELECT 1 SETTINGS max_execution_time = 0',
])('a reader can only read: %s', async (sql) => {
  const reader = new ClickHouse({
    url: server.url,
    reads: { executionSecondsMax: 5, rowsToReadMax: 1_000, resultRowsMax: 100 },
  });
  expect((await failureOf(reader.command(sql))).kind).toBe('refused');
  expect(await reader.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  expect((await failureOf(reader.query('SELECT * FROM numbers(1001)'))).code).toBe(158);
  await reader.close();
});

test('a GET can only read', async () => {
  const insert = encodeURIComponent('INSERT INTO numbers_kept VALUES (1, 2)');
  const answer = await ask('GET', `/?query=${insert}`, {});
  expect([answer.status, answer.headers.get('x-clickhouse-exception-code')]).toEqual([403, '164']);
  expect((await ask('GET', '/?query=SELECT%201', {})).text).toBe('1\n');
});

test.each([{ Origin: 'https://example.com' }, { Host: 'example.com' }, { 'Sec-Fetch-Mode': 'no-cors' }])(
  'a page in a browser is refused: %j',
  async (headers) => {
    expect((await ask('GET', '/?query=SELECT%201', headers)).status).toBe(403);
  },
);

test('gzip is supported in both directions', async () => {
  const rows = gzipSync('{"a":7001,"s":"x"}\n{"a":7002,"s":"y"}\n');
  const insert = encodeURIComponent('INSERT INTO numbers_kept FORMAT JSONEachRow');
  const stored = await post(`/?query=${insert}`, rows, { 'Content-Encoding': 'gzip' });
  expect(JSON.parse(stored.headers.get('x-clickhouse-summary') ?? '{}').written_rows).toBe('2');
  const bytes = await new Promise<Buffer>((resolve) => {
    const headers = { authorization, 'Accept-Encoding': 'gzip' };
    request(`${address}/?enable_http_compression=1`, { method: 'POST', headers }, (response) => {
      expect(response.headers['content-encoding']).toBe('gzip');
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => resolve(Buffer.concat(chunks)));
    }).end('SELECT number FROM numbers(100000)');
  });
  expect(gunzipSync(bytes).toString().split('\n')).toHaveLength(100_001);
});

test.each([
  ['JSONEachRow', '{"a":1,"s":"x"}\n', '{"a":1,"s":"x"}\n'],
  ['JSONCompactEachRow', '[2, "x"]\n', '[2, "x"]\n'],
  ['RowBinary', '\u0003\0\0\0\u0002\n\n', '\u0003\0\0\0\u0002\n\n'],
  ['CSVWithNames', 'a,s\n4,x\n', '"a","s"\n4,"x"\n'],
  ['TabSeparated', '5\tx;y\\n\n', '5\tx;y\\n\n'],
])('rows are inserted and returned as %s', async (format, sent, received) => {
  await client.command('TRUNCATE TABLE numbers_kept');
  expect((await post(`/?query=INSERT+INTO+numbers_kept+FORMAT+${format}`, sent)).status).toBe(200);
  expect((await post(`/?default_format=${format}`, 'SELECT * FROM numbers_kept')).text).toBe(received);
  await client.command('TRUNCATE TABLE numbers_kept');
  // The data after the statement in one body.
  expect((await post('/', `INSERT INTO numbers_kept FORMAT ${format}\n${sent}`)).status).toBe(200);
  expect((await post('/', `SELECT * FROM numbers_kept FORMAT ${format}`)).text).toBe(received);
});

test('a blank line in the data neither ends it nor starts another statement', async () => {
  await client.command('TRUNCATE TABLE numbers_kept');
  const rows = '{"a":1}\n\n{"a":2}\n\n\n';
  const answer = await post('/?query=INSERT+INTO+numbers_kept+FORMAT+JSONEachRow', rows);
  expect(JSON.parse(answer.headers.get('x-clickhouse-summary') ?? '{}').written_rows).toBe('2');
  await post('/?query=INSERT+INTO+numbers_kept+FORMAT+JSONEachRow', '{"a":3}\n\nDROP TABLE numbers_kept');
  expect(await count()).toBeLessThanOrEqual(3);
});

test('the number of written rows is reported, also for VALUES and SELECT', async () => {
  const written = async (sql: string) =>
    JSON.parse((await post('/', sql)).headers.get('x-clickhouse-summary') ?? '{}').written_rows;
  expect(await written("INSERT INTO numbers_kept VALUES (1, 'a;b'), (2, '\n\n')")).toBe('2');
  expect(await written('INSERT INTO numbers_kept SELECT number, toString(number) FROM numbers(50)')).toBe('50');
});

const cutOff: [string, string, string][] = [
  ['shorter than its Content-Length', 'Content-Length: 500', '{"a":9001}\n{"a":9002}\n'],
  ['chunked without an end', 'Transfer-Encoding: chunked', '17\r\n{"a":9001}\n{"a":9002}\n \r\n'],
];
test.each(cutOff)('an insert that was cut off stores nothing: %s', async (_, header, body) => {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  const path = '/?query=INSERT+INTO+numbers_kept+FORMAT+JSONEachRow';
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n${header}\r\n\r\n${body}`,
  );
  socket.end();
  await new Promise((resolve) => socket.on('close', resolve).resume());
  expect(await count('a > 9000')).toBe(0);
});

test('a compressed insert that was cut off stores nothing', async () => {
  const whole = gzipSync('{"a":9001}\n'.repeat(1000));
  const path = '/?query=INSERT+INTO+numbers_kept+FORMAT+JSONEachRow';
  const answer = await post(path, whole.subarray(0, whole.length - 9), { 'Content-Encoding': 'gzip' });
  expect(answer.status).toBe(400);
  expect(await count('a > 9000')).toBe(0);
});

test('a body over the limit is rejected, however it is compressed', async () => {
  const bomb = gzipSync(Buffer.alloc(70 * 1024 * 1024, 32));
  const path = '/?query=INSERT+INTO+numbers_kept+FORMAT+JSONEachRow';
  expect((await post(path, bomb, { 'Content-Encoding': 'gzip' })).status).toBe(413);
});

test('a large result is streamed, and a client that disconnects halfway cancels the query', async () => {
  let rows = 0;
  for await (const lot of client.stream<{ n: number }>('SELECT number AS n FROM numbers(100000000000)')) {
    rows += lot.length;
    if (rows > 200_000) break;
  }
  const running =
    "SELECT count() AS n FROM system.processes WHERE query LIKE '%100000000000%' AND query NOT LIKE '%system%'";
  await expect.poll(() => client.query(running), { timeout: 5_000 }).toEqual([{ n: 0 }]);
});

test('a slow client slows the query down instead of filling the memory', async () => {
  const rows = client.stream<{ s: string }>("SELECT repeat('x', 1000) AS s FROM numbers(100000000)");
  await rows.next();
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  expect(Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1])).toBeLessThan(1_500_000);
  await rows.return(undefined);
});

test('a failure in the middle of a result is reported as a failure, not as its end', async () => {
  let rows = 0;
  const read = async () => {
    const sql = 'SELECT throwIf(number = 300000) AS x FROM numbers(400000)';
    for await (const lot of client.stream(sql, {}, { max_block_size: 1000 })) rows += lot.length;
  };
  expect((await failureOf(read())).code).toBe(395);
  expect(rows).toBeLessThan(300_001);
});

test('long queries delay neither /ping nor inserts', async () => {
  const long = Array.from({ length: 8 }, () =>
    failureOf(client.query('SELECT sum(sipHash64(number)) FROM numbers(100000000000)', {}, { max_execution_time: 1 })),
  );
  const insert = await client.insert('numbers_kept', Buffer.from('[1,"x"]'), {
    token: 'beside',
    format: 'JSONCompactEachRow',
    columns: ['a', 's'],
  });
  expect(insert.kind).toBe('written');
  expect(await client.isReachable()).toBe(true);
  for (const failed of await Promise.all(long)) expect([failed.kind, failed.code]).toEqual(['unavailable', 159]);
});

describe('a table of which only one statement at a time may change rows, and none may read meanwhile', () => {
  const joined = "joinGet('one_at_a_time', 'n', toUInt16({p:UInt16}))";
  beforeAll(async () => {
    await client.command(
      'CREATE TABLE one_at_a_time (p UInt16, n UInt64) ENGINE = Join(ANY, LEFT, p) SETTINGS join_any_take_last_row = 1',
    );
  });

  test('queries and inserts in it never wait for one another without end', async () => {
    const write = async (p: number, n: number) => {
      await client.command(`INSERT INTO one_at_a_time SELECT {p:UInt16}, greatest({n:UInt64}, ${joined})`, { p, n });
      await client.query('SELECT p FROM one_at_a_time');
      return await client.query(`SELECT ${joined} AS n`, { p });
    };
    for (let n = 1; n <= 50; n++) {
      const found = await Promise.all(Array.from({ length: 5 }, (_, p) => write(p, n)));
      expect(found).toEqual(Array.from({ length: 5 }, () => [{ n }]));
    }
  });

  test('a stream fails, and blocks no other query, if it would deadlock with an insert and an earlier stream', async () => {
    await client.command('INSERT INTO one_at_a_time SELECT number, 1 FROM numbers(60000)');
    const read = client.stream<{ p: number }>('SELECT p FROM one_at_a_time', {}, { max_block_size: 100 });
    let rows = (await read.next()).value?.length ?? 0;
    let isWritten = false;
    const insert = client.command('INSERT INTO one_at_a_time SELECT 60001, 1').then(() => {
      isWritten = true;
    });
    const running = 'SELECT 1 FROM system.processes WHERE query LIKE {like:String}';
    await expect
      .poll(() => client.query(running, { like: 'INSERT INTO one_at_a_time SELECT 60001%' }))
      .toEqual([{ 1: 1 }]);
    const another = client.stream('SELECT p FROM one_at_a_time').next();
    expect(await failureOf(another)).toMatchObject({ kind: 'unavailable', code: 473 });
    expect(await client.query('SELECT 1 AS a')).toEqual([{ a: 1 }]);
    expect(isWritten).toBe(false);
    for await (const lot of read) rows += lot.length;
    expect(rows).toBe(60_000);
    await insert;
  });
});

test('a second server on the same folder refuses to start', async () => {
  const args = [builtClickHouse(), join(folder, 'store'), '0'];
  const second = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(second.status).toBe(1);
  expect(second.stderr).toMatch(/another process may be using it/);
});

test('an address that is reachable from other machines is rejected', async () => {
  const args = [builtClickHouse(), join(folder, 'elsewhere'), '0', '0.0.0.0'];
  expect(spawnSync(process.execPath, args, { encoding: 'utf8' }).stderr).toMatch(/loopback only/);
});

test('an unreachable server is distinguished from a rejection', async () => {
  const unreachable = new ClickHouse({ url: 'http://127.0.0.1:9' });
  expect((await failureOf(unreachable.query('SELECT 1'))).kind).toBe('unavailable');
  expect(await unreachable.isReachable()).toBe(false);
  const outcome = await unreachable.insert('t', Buffer.from('x'), {
    token: 't',
    format: 'JSONEachRow',
    columns: ['a'],
  });
  expect(outcome.kind).toBe('unavailable');
  await unreachable.close();
});
