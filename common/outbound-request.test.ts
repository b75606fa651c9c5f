import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { type OutboundRules, outboundRequest } from './outbound-request.ts';
import { ReachableAddresses } from './reachable-addresses.ts';

/** Stands for a public address; 127.0.0.1 is inside. */
const outside = '127.0.0.2';
const answerBytesMax = 1_024;
let receiver: Receiver;
let inside: Receiver;
let asked: string[];

beforeAll(async () => {
  [receiver, inside] = await onePort();
});
beforeEach(() => {
  receiver.received.length = 0;
  receiver.answer = (response) => response.writeHead(204).end();
  asked = [];
});
afterAll(async () => {
  expect(inside.received).toEqual([]);
  await Promise.all([receiver.stop(), inside.stop()]);
});

/** Two receivers on one port; another program may have it on the second address. */
async function onePort(): Promise<[Receiver, Receiver]> {
  for (let tries = 1; ; tries++) {
    const first = await receiverForTest(outside);
    try {
      return [first, await receiverForTest('127.0.0.1', first.port)];
    } catch (error) {
      await first.stop();
      if (tries === 10) throw error;
    }
  }
}

function send(url: string, answers: readonly string[] = [outside], more: Partial<OutboundRules> = {}) {
  const rules: OutboundRules = {
    resolve: async (host) => {
      asked.push(host);
      return answers;
    },
    reachable: new ReachableAddresses([outside]),
    timeLimitMs: 2_000,
    ...more,
  };
  return outboundRequest({ method: 'POST', url, headers: {}, body: '{}', answerBytesMax }, rules);
}

const named = () => `http://hooks.example:${receiver.port}/hook`;

test('a name that changes its address between lookup and connection reaches only an address that was checked', async () => {
  let turn = 0;
  const reached: string[] = [];
  for (let n = 0; n < 6; n++) {
    const outcome = await send(named(), [], {
      resolve: async (host) => {
        asked.push(host);
        turn += 1;
        return turn % 2 === 1 ? [outside] : ['127.0.0.1'];
      },
    });
    reached.push(outcome.kind === 'failed' ? outcome.reason : outcome.kind);
  }
  expect(reached).toEqual(Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? 'answered' : 'address_not_allowed')));
  // One lookup for each connection, so that the checked address is the one that is used.
  expect(asked).toHaveLength(6);
  expect(receiver.received).toHaveLength(3);
  expect(inside.received).toEqual([]);
});

test('of several addresses only the allowed ones are tried', async () => {
  expect((await send(named(), ['127.0.0.1', '::1', outside])).kind).toBe('answered');
  expect(await send(named(), ['127.0.0.1', '::1', '10.0.0.1'])).toEqual({
    kind: 'failed',
    reason: 'address_not_allowed',
  });
});

test.each([
  ...['127.0.0.1', '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '0.0.0.0', '0'],
  ...['[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '[::]'],
])('the address %s in a URL is judged without a lookup', async (host) => {
  expect(await send(`http://${host}:${inside.port}/`)).toEqual({ kind: 'failed', reason: 'address_not_allowed' });
  expect(asked).toEqual([]);
});

test.each(['localhost', 'LOCALHOST.', '127.0.0.1.nip.io'])(
  'the name %s is judged by what it resolves to',
  async (host) => {
    const outcome = await send(`http://${host}:${inside.port}/`, ['127.0.0.1']);
    expect(outcome).toEqual({ kind: 'failed', reason: 'address_not_allowed' });
    expect(asked).toHaveLength(1);
  },
);

test.each([301, 302, 303, 307, 308])('a %i is not followed', async (status) => {
  receiver.answer = (response) => response.writeHead(status, { location: inside.url }).end('elsewhere');
  expect(await send(named())).toMatchObject({
    ...{ kind: 'answered', status, body: Buffer.from('elsewhere'), isWhole: true },
    headers: { location: inside.url },
  });
  expect(inside.received).toEqual([]);
});

test('every request has its own connection, and resolves the name again', async () => {
  for (let n = 0; n < 3; n++) await send(named());
  expect(receiver.received.map(({ headers }) => headers.connection)).toEqual(['close', 'close', 'close']);
  expect(asked).toHaveLength(3);
});

test('a name without an address, a refused connection and a response that is not HTTP have different reasons', async () => {
  const nowhere = { resolve: () => Promise.reject(new Error('NXDOMAIN')) };
  expect(await send(named(), [], nowhere)).toEqual({ kind: 'failed', reason: 'name_not_resolved' });
  expect(await send(`http://${outside}:9/`)).toEqual({ kind: 'failed', reason: 'connection_failed' });
  expect(await send(named().replace('http:', 'https:'))).toEqual({ kind: 'failed', reason: 'tls_failed' });
  receiver.answer = (response) => response.socket?.end('nonsense');
  expect(await send(named())).toEqual({ kind: 'failed', reason: 'connection_failed' });
  receiver.answer = (response) => response.writeHead(200, { x: 'x'.repeat(100_000) }).end();
  expect(await send(named())).toEqual({ kind: 'failed', reason: 'connection_failed' });
});

test('an untrusted certificate is rejected before anything is sent', async () => {
  const pems = await generate([{ name: 'commonName', value: 'hooks.example' }], { keyType: 'ec' });
  let requests = 0;
  const server = createHttpsServer({ key: pems.private, cert: pems.cert }, (_, response) => {
    requests += 1;
    response.end();
  });
  await new Promise<void>((listening) => server.listen(0, outside, listening));
  try {
    const { port } = server.address() as AddressInfo;
    expect(await send(`https://hooks.example:${port}/`)).toEqual({ kind: 'failed', reason: 'tls_failed' });
    expect(requests).toBe(0);
  } finally {
    await new Promise((closed) => server.close(closed));
  }
});

test('an answer whose body never ends counts by its status, as incomplete', async () => {
  receiver.answer = (response) => response.writeHead(200).write('begun');
  expect(await send(named(), [outside], { timeLimitMs: 300 })).toMatchObject({
    ...{ kind: 'answered', status: 200, body: Buffer.from('begun'), isWhole: false },
  });
});

test.each([
  ['as long as the limit is read whole', answerBytesMax, true],
  ['one byte longer is cut off', answerBytesMax + 1, false],
  ['of many megabytes is cut off', 30_000_000, false],
])('a body %s', async (_, bytes, isWhole) => {
  receiver.answer = (response) => response.writeHead(200).end(Buffer.alloc(bytes, 97));
  const outcome = await send(named());
  expect(outcome).toMatchObject({ kind: 'answered', isWhole });
  expect('body' in outcome && outcome.body.length).toBe(answerBytesMax);
});

test('a body that ends before its announced length is incomplete', async () => {
  receiver.answer = (response) => {
    response.writeHead(200, { 'content-length': '100' }).write('begun');
    response.socket?.end();
  };
  expect(await send(named())).toMatchObject({ kind: 'answered', isWhole: false });
});

test('an aborted request is not sent, and a running one ends', async () => {
  const abort = new AbortController();
  const rules = {
    resolve: async () => [outside],
    reachable: new ReachableAddresses([outside]),
    timeLimitMs: 10_000,
  };
  const request = { method: 'GET', url: named(), headers: {}, answerBytesMax, signal: abort.signal } as const;
  receiver.answer = () => abort.abort();
  expect(await outboundRequest(request, rules)).toEqual({ kind: 'aborted' });
  expect(await outboundRequest(request, rules)).toEqual({ kind: 'aborted' });
  expect(receiver.received).toHaveLength(1);
});

test('a lookup that never ends is cut off at the time limit', async () => {
  const never = { resolve: () => new Promise<never>(() => undefined), timeLimitMs: 100 };
  expect(await send(named(), [], never)).toEqual({ kind: 'failed', reason: 'timeout' });
});
