/** Requests as old clients and proxies write them, on a running edge and API: each gets its own answer, or a closed connection. */
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest } from '#api/testing/running-api.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { Rows, TestEdge } from './testing/running-edge.ts';

const host = 'myapp.localhost';
let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
let edge: TestEdge;
let api: ApiForTest;

beforeAll(async () => {
  [database, redis, api] = await Promise.all([postgresForTest(), redisForTest(), apiForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  const appId = await rows.app({ host });
  for (const code of ['summer', 'winter'])
    await rows.link(appId, { short_code: code, fallback_url: `https://www.example.com/${code}` });
  edge = await TestEdge.start({ redis: redis.url, postgres: database.url });
});
afterAll(async () => {
  await edge.stop();
  await rows.db.close();
  await Promise.all([redis.stop(), database.stop(), api.stop()]);
});

/** Everything that arrives for the bytes until the server closes the connection, or `isEnough`. */
function answersTo(port: number, text: string, isEnough: (answer: string) => boolean): Promise<string> {
  return new Promise((done, fail) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (isEnough(answer)) socket.destroy();
    });
    socket.on('error', fail);
    socket.on('close', () => done(answer));
  });
}

const get = (target: string, name: string, version = '1.1', ...headers: string[]) =>
  `${[`GET ${target} HTTP/${version}`, `Host: ${name}`, ...headers].join('\r\n')}\r\n\r\n`;
const statuses = (text: string) => [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
const places = (text: string) => [...text.matchAll(/^Location: (\S+)/gim)].map(([, place]) => place);
const countOf = (count: number) => (text: string) => statuses(text).length >= count;

test('visits in one packet are answered in order, or the connection is closed: never with another answer', async () => {
  const both = ['https://www.example.com/summer', 'https://www.example.com/winter'];
  for (let n = 0; n < 20; n++) {
    const text = await answersTo(edge.port, get('/summer', host) + get('/winter', host), countOf(2));
    expect(both.slice(0, places(text).length)).toEqual(places(text));
    expect(statuses(text)).toEqual(places(text).map(() => 302));
  }
  // What a client does with a closed connection (RFC 9112, 9.3.2): one after the other.
  for (const [at, code] of ['/summer', '/winter'].entries())
    expect(places(await answersTo(edge.port, get(code, host), countOf(1)))).toEqual([both[at]]);
});

test('requests to the API in one packet are answered in order, or not at all and the connection is closed', async () => {
  const { port } = new URL(api.url);
  const { pathname } = new URL(`${api.url}/unknown`);
  for (let n = 0; n < 20; n++) {
    const text = await answersTo(Number(port), get(pathname, 'api') + get(pathname, 'api'), countOf(2));
    expect([[], [404], [404, 404]]).toContainEqual(statuses(text));
  }
});

test.each([
  ['HTTP/1.0', get('/summer', host, '1.0')],
  ['an absolute address', get(`http://${host}/summer`, host)],
  ['an absolute address with https', get(`https://${host}/summer`, host)],
])('a request with %s gets one answer, 505, and a closed connection', async (_, text) => {
  for (const port of [edge.port, Number(new URL(api.url).port)])
    expect(statuses(await answersTo(port, text + get('/summer', host), countOf(2)))).toEqual([505]);
});
