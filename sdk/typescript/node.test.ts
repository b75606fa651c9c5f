import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createSignpost, type NodeSignpost } from '#src/node.ts';

const hourMs = 3_600_000;
/** The server's clock is an hour ahead of this one. */
const aheadMs = hourMs;

interface Sent {
  readonly name: string;
  readonly timestamp: number | string;
}

let folder: string;
let server: Server;
let sent: Sent[];
let isUp: boolean;
/** Resolves when requests are answered. */
let answers: Promise<void>;
let asked: number;
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  for await (const part of request) text += part;
  const { events } = JSON.parse(text) as { events: Sent[] };
  asked++;
  await answers;
  if (isUp) sent.push(...events);
  const reset = String(Math.round((Date.now() + aheadMs + 30_000) / 1_000));
  response.writeHead(isUp ? 202 : 403, { 'content-type': 'application/json', 'x-ratelimit-reset': reset });
  response.end(JSON.stringify({ accepted: events.length }));
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signpost-node-'));
  sent = [];
  isUp = true;
  asked = 0;
  answers = Promise.resolve();
  server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

const newClient = () => {
  const { port } = server.address() as AddressInfo;
  return createSignpost({ host: `http://127.0.0.1:${port}`, apiKey: 'lk_test', queueFile: join(folder, 'queue') });
};
const track = (client: NodeSignpost, name: string, timestamp?: number) =>
  client.track(name, { userId: 'u', ...(timestamp === undefined ? {} : { timestamp }) });

test('a time that the caller gives is sent as it is, whatever the clocks say', async () => {
  const now = Date.now();
  const given = new Map([
    ['first', now - hourMs],
    ['before the first answer', now - 1],
    ['ahead', now + 2 * hourMs],
    ['after a restart', now + 3 * hourMs],
  ]);
  const send = (client: NodeSignpost, name: string) => track(client, name, given.get(name));
  let letGo = () => {};
  answers = new Promise((resolve) => {
    letGo = resolve;
  });
  let client = newClient();
  await send(client, 'first');
  const flushed = client.flush();
  await expect.poll(() => asked).toBe(1);
  await send(client, 'before the first answer');
  await send(client, 'ahead');
  await track(client, 'own');
  letGo();
  await flushed;
  await client.flush();
  isUp = false;
  await send(client, 'after a restart');
  await client.close();
  isUp = true;
  client = newClient();
  await client.close();
  const { own, ...rest } = Object.fromEntries(sent.map((one) => [one.name, new Date(one.timestamp).getTime()]));
  expect(rest).toEqual(Object.fromEntries(given));
  // A time of the SDK's own is the server's.
  expect(own).toBeGreaterThan(now + aheadMs - 60_000);
});

test('a time that is none is an error of the caller', async () => {
  const client = newClient();
  expect(() => track(client, 'a', Number.NaN)).toThrow("track('a') needs its timestamp in epoch milliseconds");
  await client.close();
});
