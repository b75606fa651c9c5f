/**
 * Abusive clients harm only themselves: others are answered as before, and the process survives.
 *
 * @module-tag slow
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import {
  neverRead,
  pipelined,
  probed,
  quiet,
  type Rig,
  rigOf,
  type SlowKind,
  sendMalformed,
  slow,
  spoilHandshakes,
  vanish,
} from './abuse.ts';
import type { Latencies } from './probe.ts';
import { Stack } from './stack.ts';

const SLOW_CLIENTS = 60;
/** A head has 10 seconds, a body 20 before its rate counts; connections are checked every few seconds. */
const SLOW_DEADLINE_MS = 30_000;
const MEMORY_GROWTH_MIB = 64;
/** The two busy cores are shared with the abusers: a stalled event loop would be far slower than this. */
const P99_MS = 400;
const TIMES_QUIET = 10;

let stack: Stack;
let rig: Rig;
let pids: number[];
let calmP99Ms: number;
const pidsNow = () => [stack.pidOf('origin'), stack.pidOf('redirector-0')];

beforeAll(async () => {
  stack = await Stack.start();
  rig = await rigOf(stack);
  pids = pidsNow();
  calmP99Ms = (await quiet(rig)).p99Ms;
});
afterAll(() => stack.stop());
afterEach(() => expect(pidsNow()).toEqual(pids));

function expectUnharmed(latencies: Latencies): void {
  console.log(`well-behaved client meanwhile: ${JSON.stringify(latencies)}`);
  expect(latencies.wrong).toEqual([]);
  expect(latencies.p99Ms).toBeLessThan(Math.max(P99_MS, calmP99Ms * TIMES_QUIET));
}

test('a malformed request is refused or times out, and is never read as two', async () => {
  const [api, redirector] = await Promise.all([sendMalformed(rig, rig.api), sendMalformed(rig, rig.redirector)]);
  const statuses = [...api, ...redirector].flatMap((outcome) => outcome.statuses);
  expect(statuses.filter((status) => status < 400 || status === 500)).toEqual([]);
  expect([...api, ...redirector].filter((outcome) => outcome.isSmuggled)).toEqual([]);
});

test(`${SLOW_CLIENTS} idle, slow and half-open clients each time out without delaying others`, async () => {
  const kinds: SlowKind[] = ['idle', 'dripping head', 'dripping body', 'half a body'];
  const { result, latencies } = await probed(rig, () =>
    Promise.all([
      ...kinds.map((kind) => slow(rig, rig.api, kind, SLOW_CLIENTS, SLOW_DEADLINE_MS)),
      ...kinds.slice(0, 2).map((kind) => slow(rig, rig.redirector, kind, SLOW_CLIENTS, SLOW_DEADLINE_MS)),
    ]),
  );
  expect(result.map((one) => one.stillOpen)).toEqual([0, 0, 0, 0, 0, 0]);
  expectUnharmed(latencies);
});

test('pipelined requests are answered in order, as far as they are answered', async () => {
  const get = (path: string, more = '') => `GET /v1${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
  const round = [get('/me', `Authorization: Bearer ${rig.token}\r\n`), get('/me'), get('/nothing')];
  const statuses = await pipelined(rig.api, Array.from({ length: 10 }, () => round).flat());
  const inOrder = Array.from({ length: 10 }, () => [200, 401, 404]).flat();
  expect(statuses).toEqual(inOrder.slice(0, statuses.length));
});

test('a client that requests much and reads nothing costs no memory', async () => {
  const request = 'GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n';
  const sizes = { clients: 10, requests: 200, watchMs: 1_500 };
  const { result, latencies } = await probed(rig, () => neverRead(rig.api, request, sizes, stack.pidOf('origin')));
  expect(result.mostMib - result.beforeMib).toBeLessThan(MEMORY_GROWTH_MIB);
  expectUnharmed(latencies);
});

test('clients that vanish in the middle of a handshake, a body or an answer leave nothing behind', async () => {
  const head = `Host: a\r\nAuthorization: Bearer ${rig.token}\r\n`;
  const half = `POST /v1/links HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"path":`;
  const { latencies } = await probed(rig, async () => {
    await vanish(rig.api, half, 100);
    await vanish(rig.api, `GET /v1/analytics/overview HTTP/1.1\r\n${head}\r\n`, 100);
    await vanish(
      rig.redirector,
      `GET /${rig.code} HTTP/1.1\r\nHost: ${rig.host}\r\nUser-Agent: Mozilla/5.0\r\n\r\n`,
      200,
    );
    await spoilHandshakes(rig, 200);
  });
  expectUnharmed(latencies);
});
