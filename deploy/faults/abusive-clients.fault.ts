/**
 * Abusive clients in large numbers: floods of connections and slow clients by the hundred, while a well-behaved client
 * keeps calling.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { neverRead, probed, quiet, type Rig, rigOf, slow, spoilHandshakes, vanish } from '#deploy/journeys/abuse.ts';
import type { Latencies } from '#deploy/journeys/probe.ts';
import { Stack } from '#deploy/journeys/stack.ts';
import { times } from './fault-sizes.ts';

/**
 * Abuse of this size takes processor time on the same machine, so the bound is wide: the test looks for a service that
 * stops responding.
 */
const P99_MS = 400;
const TIMES_QUIET = 10;
const MEMORY_GROWTH_MIB = 64;
const SLOW_DEADLINE_MS = 30_000;

let stack: Stack;
let rig: Rig;
let pids: number[];
let boundMs: number;
const pidsNow = () => [stack.pidOf('origin'), stack.pidOf('redirector-0')];
beforeAll(async () => {
  stack = await Stack.start();
  rig = await rigOf(stack);
  pids = pidsNow();
  const calm = await quiet(rig);
  boundMs = Math.max(P99_MS, calm.p99Ms * TIMES_QUIET);
  console.log(`without abuse: ${JSON.stringify(calm)}`);
});
afterAll(() => stack.stop());

function expectUnharmed(what: string, latencies: Latencies): void {
  console.log(`${what}: well-behaved client meanwhile ${JSON.stringify(latencies)}`);
  expect(latencies.wrong).toEqual([]);
  expect(latencies.p99Ms).toBeLessThan(boundMs);
  expect(pidsNow()).toEqual(pids);
}

test.each([
  ['idle', 2_000],
  ['dripping head', 500],
  ['dripping body', 500],
  ['half a body', 500],
] as const)('hundreds of %s connections time out without delaying others', async (kind, count) => {
  for (const target of kind === 'idle' || kind === 'dripping head' ? [rig.api, rig.redirector] : [rig.api]) {
    const { result, latencies } = await probed(rig, () => slow(rig, target, kind, times(count), SLOW_DEADLINE_MS));
    console.log(JSON.stringify(result));
    expect(result.stillOpen).toBe(0);
    expectUnharmed(kind, latencies);
  }
});

test('a client that requests much and reads nothing costs no memory', async () => {
  const request = 'GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n';
  const sizes = { clients: times(100), requests: 500, watchMs: 10_000 };
  const { result, latencies } = await probed(rig, () => neverRead(rig.api, request, sizes, stack.pidOf('origin')));
  console.log(JSON.stringify(result));
  expect(result.mostMib - result.beforeMib).toBeLessThan(MEMORY_GROWTH_MIB);
  expectUnharmed('greedy', latencies);
});

test('thousands of clients that vanish leave nothing behind', async () => {
  const head = `Host: a\r\nAuthorization: Bearer ${rig.token}\r\n`;
  const half = `POST /v1/links HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"path":`;
  const { latencies } = await probed(rig, async () => {
    await vanish(rig.api, half, times(1_000));
    await vanish(rig.api, `GET /v1/analytics/overview HTTP/1.1\r\n${head}\r\n`, times(1_000));
    await vanish(
      rig.redirector,
      `GET /${rig.code} HTTP/1.1\r\nHost: ${rig.host}\r\nUser-Agent: Mozilla/5.0\r\n\r\n`,
      times(3_000),
    );
    await spoilHandshakes(rig, times(2_000));
  });
  expectUnharmed('vanishing', latencies);
});
