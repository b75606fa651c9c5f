/** Tests ClickHouse behind a proxy that limits the head of a request to 8 KiB, as common ones do. */
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { idsBeside } from '#clickhouse/queries/erase.ts';
import { systemTime } from '#common/time.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { ClickHouseStore } from './clickhouse-store.ts';

const headBytesMax = 8_192;
let store: TestDatabase;
let direct: ClickHouse;
let proxy: Server;
let client: ClickHouse;
/** The status of each answer of the proxy itself. */
let answer: number | undefined;
const refused: number[] = [];

beforeAll(async () => {
  store = await clickhouseForTest();
  direct = new ClickHouse({ url: store.url });
  const socketPath = new URL(store.url).searchParams.get('socket');
  if (socketPath === null) throw new Error('ClickHouse is not on a socket');
  proxy = createServer({ maxHeaderSize: headBytesMax }, (asked, response) => {
    if (answer !== undefined) {
      response.writeHead(answer).end();
      return;
    }
    const { method, url: path, headers } = asked;
    const passed = request({ socketPath, method, path, headers }, (from) => {
      response.writeHead(from.statusCode ?? 0, from.headers);
      from.pipe(response);
    });
    passed.on('error', () => response.destroy());
    asked.pipe(passed);
  });
  proxy.on('clientError', (error, socket) => {
    if ('code' in error && error.code === 'HPE_HEADER_OVERFLOW') refused.push(431);
    socket.end('HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n');
  });
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
  const url = new URL(store.url);
  url.port = String((proxy.address() as AddressInfo).port);
  url.hostname = '127.0.0.1';
  url.searchParams.delete('socket');
  client = new ClickHouse({ url: url.href });
});
afterAll(async () => {
  await client.close();
  await direct.close();
  await new Promise((done) => proxy.close(done));
  await store.stop();
});

const producer = (n: number) => `producer${String(n).padStart(18, '0')}`;

test('many frames are looked up, in whatever lanes they are', async () => {
  await direct.command(
    "INSERT INTO clicks (click_id, organization_id, app_id, time, log_partition, batch_no, producer_id, frame_no, idx) SELECT toString(number), 'o', 'a', now(), 3, 7, concat('producer', leftPad(toString(number % 500), 18, '0')), number, 1 FROM numbers(1000)",
  );
  const spans = Array.from({ length: 500 }, (_, n) => ({
    producer_id: producer(n),
    kind: 'click' as const,
    from: n,
    to: n,
  }));
  const places = await new ClickHouseStore(client, systemTime).placesOf(3, 6, spans);
  expect(places).toHaveLength(500);
  expect(new Set(places.map(({ frame_no }) => frame_no)).size).toBe(500);
  expect(refused).toEqual([]);
});

test('ids in lists and long texts arrive as they are, also streamed', async () => {
  const odd = `it's "quoted", \\ and \n two lines\t – ü 漢 \r\n--boundary ${'x'.repeat(9_000)}`;
  const ids = Array.from({ length: 500 }, (_, n) => `id-${n} 'q' ü`);
  const [row] = await client.query<{ text: string; ids: string[] }>(
    'SELECT {text:String} AS text, {ids:Array(String)} AS ids',
    { text: odd, ids },
  );
  expect(row).toEqual({ text: odd, ids });
  const lots: string[] = [];
  for await (const lot of client.stream<{ id: string }>('SELECT arrayJoin({ids:Array(String)}) AS id', { ids }))
    lots.push(...lot.map(({ id }) => id));
  expect(lots).toEqual(ids);
  const person = { device: ids, install: ids, user: ids, click: ids };
  expect(await idsBeside(client, { organization_id: 'o', app_id: 'a' }, person as never, 10)).toEqual({
    ...{ device: [], install: [], click: [] },
  });
  expect(refused).toEqual([]);
});

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof ClickHouseFailure ? { kind: error.kind, message: error.message } : error),
  );

test('what a proxy refuses is not called unavailable, and the reason names the status', async () => {
  const tooLong = await failureOf(client.command('SELECT {text:String}', { text: 'x'.repeat(10_000) }));
  expect(tooLong).toEqual({ kind: 'refused', message: expect.stringContaining('HTTP 431') });
  expect(refused).toEqual([431]);
  answer = 413;
  expect(await failureOf(client.query('SELECT 1'))).toMatchObject({
    kind: 'refused',
    message: expect.stringContaining('HTTP 413'),
  });
  answer = 429;
  expect(await failureOf(client.query('SELECT 1'))).toMatchObject({
    kind: 'unavailable',
    message: expect.stringContaining('HTTP 429'),
  });
  answer = 502;
  expect(await failureOf(client.query('SELECT 1'))).toMatchObject({
    kind: 'unavailable',
    message: expect.stringContaining('HTTP 502'),
  });
  answer = undefined;
  // An exception of ClickHouse stays what it is.
  expect(await failureOf(client.query('SELECT nothing'))).toMatchObject({
    kind: 'refused',
    message: expect.not.stringContaining('HTTP'),
  });
});
