/**
 * The SDK over a network of 2.5 kB/s, as a phone with one bar. SLOW_NETWORK_SECONDS sets how long; 40 if absent.
 *
 * @module-tag slow
 */
import { connect, createServer, type Server } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { sleep, systemTime } from '#common/time.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';
import { Client } from '#sdk/typescript/src/client.ts';
import { fetchSend } from '#sdk/typescript/src/fetch-send.ts';
import { FirstOpening } from '#sdk/typescript/src/first-open.ts';
import * as links from '#sdk/typescript/src/link-work.ts';
import { memoryStore } from '#sdk/typescript/src/memory-store.ts';

const SECONDS = Number(process.env['SLOW_NETWORK_SECONDS'] ?? 40);
const BYTES_PER_SECOND = 2_500;
const TICK_MS = 50;
/** Before the network gets slow, as after a day without one. */
const EVENTS_AT_ONCE = 100;
const EVENTS_PER_SECOND = 2;

let edge: SdkEdge;
let network: Server;
let port = 0;

beforeAll(async () => {
  edge = await SdkEdge.start();
  const { hostname: host, port: target } = new URL(edge.base);
  // All connections share the bytes, what goes up and what comes down apart.
  const budgets = { up: 0, down: 0 };
  setInterval(() => {
    for (const way of ['up', 'down'] as const)
      budgets[way] = Math.min(BYTES_PER_SECOND, budgets[way] + (BYTES_PER_SECOND * TICK_MS) / 1000);
  }, TICK_MS).unref();
  network = createServer((near) => {
    const far = connect(Number(target), host);
    const carry = (from: typeof near, to: typeof near, way: keyof typeof budgets) => {
      const timer = setInterval(() => {
        const waiting = from.readableLength;
        const bytes: unknown =
          budgets[way] >= 1 && waiting > 0 ? from.read(Math.min(waiting, Math.floor(budgets[way]))) : null;
        if (!Buffer.isBuffer(bytes)) return;
        budgets[way] -= bytes.length;
        to.write(bytes);
      }, TICK_MS);
      from.on('readable', () => undefined);
      from.on('end', () => to.end()).on('error', () => to.destroy());
      from.on('close', () => clearInterval(timer));
    };
    carry(near, far, 'up');
    carry(far, near, 'down');
  });
  await new Promise<void>((done) => network.listen(0, '127.0.0.1', done));
  const address = network.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  ({ port } = address);
});
afterAll(async () => {
  network.close();
  await edge.stop();
});

test(`over ${BYTES_PER_SECOND} bytes per second for ${SECONDS} seconds, every event is stored, once`, async () => {
  const { app_id, key } = await edge.app();
  const send = fetchSend(() => false);
  const statuses: Record<string, number> = {};
  const client = new Client(
    { host: 'https://api.example.com', apiKey: key },
    {
      kind: 'device',
      firstOpen: (host) => new FirstOpening(host, () => null),
      store: memoryStore(new Map()),
      send: async (url, headers, body, timeoutMs) => {
        const path = url.slice(url.indexOf('/v1'));
        const own = { ...headers, 'x-forwarded-proto': 'https', 'x-forwarded-for': '198.51.100.7' };
        const answer = await send(`http://127.0.0.1:${port}${path}`, own, body, timeoutMs);
        const kind = typeof answer === 'string' ? answer : String(answer.status);
        statuses[kind] = (statuses[kind] ?? 0) + 1;
        return answer;
      },
      now: Date.now,
      random: Math.random,
      newId: (kind) => newId('evt', Date.now()).replace('evt', kind),
      timer: (fire, delayMs) => setTimeout(fire, delayMs).unref(),
      exclusively: async (work) => {
        await work();
        return true;
      },
      device: () => ({ platform: 'android', os_version: '14', sdk_name: 'test', sdk_version: '1' }),
      links: () => links,
    },
  );
  const names: string[] = [];
  const track = async () => {
    names.push(`event-${names.length}`);
    const properties = { screen: 'shop/product/details', text: 'x'.repeat(200) };
    await client.track(names.at(-1) ?? '', { properties });
  };
  for (let n = 0; n < EVENTS_AT_ONCE; n++) await track();
  for (let n = 0; n < SECONDS * EVENTS_PER_SECOND; n++) {
    await track();
    await sleep(systemTime, 1000 / EVENTS_PER_SECOND);
  }
  const stored = () => edge.events(app_id).map(({ name }) => name);
  await expect.poll(() => new Set(stored()).size, { timeout: 120_000, interval: 500 }).toBe(names.length);
  expect(stored().sort()).toEqual([...names].sort());
  console.log(`${names.length} events, answers ${JSON.stringify(statuses)}`);
  expect(statuses['400'] ?? 0).toBe(0);
}, 1_200_000);
