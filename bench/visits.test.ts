/** Tests the client that makes visits, and the measurement of CPU. */
import { createServer as createPlainServer, type RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Subject } from './load/subject.ts';
import { threadsCpuUs } from './load/visitor-servers.ts';
import type { Visited, Visits } from './load/visits-client.ts';

let client: Subject;
let connections = 0;
let status = 302;
const answer: RequestListener = (_, response) =>
  void response.writeHead(status, { location: 'https://example.com/', 'content-length': '0' }).end();
const plain = createPlainServer(answer).on('connection', () => connections++);
let secured: ReturnType<typeof createServer>;

const listen = (server: typeof plain | typeof secured) =>
  new Promise<number>((done) => server.listen(0, '127.0.0.1', () => done((server.address() as AddressInfo).port)));

beforeAll(async () => {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], { keyType: 'ec', algorithm: 'sha256' });
  secured = createServer({ cert: made.cert, key: made.private }, answer);
  client = Subject.start('client', 'bench/load/visits-client.ts', {});
}, 60_000);
afterAll(async () => {
  await client.stop();
  plain.close();
  secured.close();
});

async function visit(port: number, more: Partial<Visits>): Promise<Visited | { failed: string }> {
  const visits: Visits = { port, host: 'localhost', path: '/', count: 20, atOnce: 4, connection: 'tcp', ...more };
  const line = client.line(/^\{.*\}$/m);
  client.write(`${JSON.stringify(visits)}\n`);
  return JSON.parse((await line)[0]) as Visited;
}

test('each visit uses its own connection, unless connections are kept', { timeout: 60_000 }, async () => {
  const port = await listen(plain);
  expect(await visit(port, {})).toMatchObject({ answered: 20 });
  expect(connections).toBe(20);
  expect(await visit(port, { connection: 'kept' })).toMatchObject({ answered: 20 });
  expect(connections).toBe(24);
});

test('every visit that should resume a session does, and no other', { timeout: 60_000 }, async () => {
  const port = await listen(secured);
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    expect(await visit(port, { connection: 'tls', version })).toMatchObject({ resumed: 0 });
    expect(await visit(port, { connection: 'tls', version, isResumed: true })).toMatchObject({ resumed: 20 });
  }
});

test('an answer that is not a redirect fails the round', { timeout: 60_000 }, async () => {
  status = 500;
  const { port } = plain.address() as AddressInfo;
  expect(await visit(port, {})).toEqual({ failed: expect.stringContaining('500') });
});

test('the CPU of a process grows with its work', () => {
  const before = threadsCpuUs(process.pid);
  const endMs = performance.now() + 20;
  while (performance.now() < endMs);
  const after = threadsCpuUs(process.pid);
  expect(after).toBeGreaterThan(before);
  expect(after - before).toBeLessThan(10_000_000);
});
