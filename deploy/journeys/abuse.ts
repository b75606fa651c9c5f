/** Abusive behaviour, in any size; the caller chooses the size and judges the result. */
import { fork } from 'node:child_process';
import { sleep, systemTime } from '#common/time.ts';
import { residentMib } from './memory.ts';
import type { Latencies } from './probe.ts';
import { exchange, openMany, type Target } from './rough-client.ts';
import { login, type Stack } from './stack.ts';

const DRIP_MS = 250;
const QUIET_MS = 1_500;

export interface Rig {
  readonly stack: Stack;
  readonly api: Target;
  readonly redirector: Target;
  readonly token: string;
  readonly linkId: string;
  /** Host and path of a short link. */
  readonly host: string;
  readonly code: string;
}

export async function rigOf(stack: Stack): Promise<Rig> {
  const call = await stack.loggedIn();
  const body = { name: 'Abused', fallback_url: 'https://example.com/' };
  const app = (await call('/apps', { method: 'POST', body })).json<{ id: string; host: string }>();
  const made = await call('/links', { method: 'POST', body: { app_id: app.id, path: '/abused' } });
  const link = made.json<{ id: string; short_code: string }>();
  const reply = await stack.api('/auth/login', { method: 'POST', body: login });
  return {
    stack,
    api: { port: stack.apiPort, isTls: true },
    redirector: { port: stack.redirectorPort, isTls: false },
    token: reply.json<{ access_token: string }>().access_token,
    linkId: link.id,
    host: app.host,
    code: link.short_code,
  };
}

/** Runs `abuse` while a well-behaved client, in its own process, keeps calling the API. */
export async function probed<T>(rig: Rig, abuse: () => Promise<T>): Promise<{ result: T; latencies: Latencies }> {
  const words = [String(rig.api.port), `/v1/links/${rig.linkId}`, `Bearer ${rig.token}`];
  const probe = fork('deploy/journeys/probe-main.ts', words, { execArgv: ['--import', 'tsx'] });
  const next = <Message>() =>
    new Promise<Message>((settle) => probe.once('message', (message) => settle(message as Message)));
  try {
    await next();
    const result = await abuse();
    const measured = next<Latencies>();
    probe.send('stop');
    return { result, latencies: await measured };
  } finally {
    probe.kill();
  }
}

/** What the same client measures without any abuse. */
export async function quiet(rig: Rig): Promise<Latencies> {
  return (await probed(rig, () => sleep(systemTime, QUIET_MS))).latencies;
}

export interface SlowResult {
  readonly opened: number;
  readonly stillOpen: number;
  readonly longestLifeMs: number;
  /** Answers by status, over all connections. */
  readonly statuses: Readonly<Record<number, number>>;
}

export type SlowKind = 'idle' | 'dripping head' | 'dripping body' | 'half a body';

/** `count` slow connections, watched until the server has ended them all or the deadline has passed. */
export async function slow(
  rig: Rig,
  target: Target,
  kind: SlowKind,
  count: number,
  deadlineMs: number,
): Promise<SlowResult> {
  const clients = await openMany(target, count);
  const post = `POST /v1/links HTTP/1.1\r\nHost: ${rig.host}\r\nAuthorization: Bearer ${rig.token}\r\nContent-Type: application/json\r\n`;
  const beginnings: Record<SlowKind, string> = {
    idle: '',
    'dripping head': `GET /${rig.code} HTTP/1.1\r\nHost: ${rig.host}\r\nX-Slow: `,
    'dripping body': `${post}Content-Length: 60000\r\n\r\n{"path":"`,
    'half a body': `${post}Content-Length: 100\r\n\r\n{"path":"/half`,
  };
  const begunMs = performance.now();
  for (const client of clients) client.write(beginnings[kind]);
  const drip = setInterval(() => {
    if (!kind.startsWith('dripping')) return;
    for (const client of clients) if (!client.isClosed) client.write('x');
  }, DRIP_MS);
  const endMs = Date.now() + deadlineMs;
  while (clients.some((client) => !client.isClosed) && Date.now() < endMs) {
    await sleep(systemTime, 50);
  }
  clearInterval(drip);
  const statuses: Record<number, number> = {};
  for (const status of clients.flatMap((client) => client.statuses)) statuses[status] = (statuses[status] ?? 0) + 1;
  const result = {
    opened: clients.length,
    stillOpen: clients.filter((client) => !client.isClosed).length,
    longestLifeMs: Math.round(Math.max(...clients.map((client) => (client.closedMs ?? Infinity) - begunMs))),
    statuses,
  };
  for (const client of clients) client.destroy();
  return result;
}

/**
 * Requests that no honest client sends. `smuggled` is where a second request would be seen if the first were misread.
 */
export function malformed(rig: Rig): Record<string, string | Uint8Array> {
  const head = (line: string) => `${line} HTTP/1.1\r\nHost: ${rig.host}\r\n`;
  const post = `${head('POST /v1/auth/refresh')}Content-Type: application/json\r\n`;
  const smuggled = `${head('GET /v1/smuggled')}\r\n`;
  const body = '{"refresh_token":"x"}';
  return {
    'two lengths that differ': `${post}Content-Length: ${body.length}\r\nContent-Length: 2\r\n\r\n${body}${smuggled}`,
    'two lengths that agree': `${post}Content-Length: ${body.length}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    'a length and chunks': `${post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    'chunks and a length': `${post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${smuggled}`,
    'an unknown encoding': `${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`,
    'two encodings': `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${smuggled}`,
    'chunks of junk': `${post}Transfer-Encoding: chunked\r\n\r\nZZZ\r\n${body}\r\n0\r\n\r\n${smuggled}`,
    'a chunk without end': `${post}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n${body}`,
    'a negative length': `${post}Content-Length: -1\r\n\r\n${body}${smuggled}`,
    'a length with a sign': `${post}Content-Length: +21\r\n\r\n${body}`,
    'a length beyond all numbers': `${post}Content-Length: 99999999999999999999999\r\n\r\n${body}`,
    'a length in words': `${post}Content-Length: twenty\r\n\r\n${body}`,
    'a head of 64 KiB': `${head('GET /v1/me')}X-Large: ${'a'.repeat(65_536)}\r\n\r\n`,
    'a thousand headers': `${head('GET /v1/me')}${'X-Many: 1\r\n'.repeat(1_000)}\r\n`,
    'a path of 64 KiB': `GET /${'a'.repeat(65_536)} HTTP/1.1\r\nHost: ${rig.host}\r\n\r\n`,
    'no host': 'GET /v1/me HTTP/1.1\r\n\r\n',
    'a folded header': `${head('GET /v1/me')}X-Folded: a\r\n b\r\n\r\n`,
    'a space before the colon': `${post}Content-Length : 21\r\n\r\n${body}`,
    'a bare line feed': 'GET /v1/me HTTP/1.1\nHost: a\n\n',
    'a NUL in the head': `${head('GET /v1/me')}X-Nul: a\0b\r\n\r\n`,
    'a version of its own': 'GET /v1/me HTTP/9.9\r\nHost: a\r\n\r\n',
    'no version': 'GET /v1/me\r\n\r\n',
    'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a method of its own': `${head('FROB /v1/me')}\r\n`,
    'a proxy request': 'GET https://other.example/v1/me HTTP/1.1\r\nHost: other.example\r\n\r\n',
    'a tunnel': 'CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n',
    'random bytes': Uint8Array.from({ length: 4_096 }, (_, at) => (at * 7_919 + 13) % 256),
  };
}

export interface MalformedOutcome {
  readonly name: string;
  readonly statuses: readonly number[];
  /** Whether the text after the request was answered as a request of its own. */
  readonly isSmuggled: boolean;
}

/** Sends each malformed request on its own connection, some of them followed by a second one. */
export function sendMalformed(rig: Rig, target: Target): Promise<MalformedOutcome[]> {
  return Promise.all(
    Object.entries(malformed(rig)).map(async ([name, bytes]) => {
      const client = await exchange(target, bytes);
      client.destroy();
      return { name, statuses: client.statuses, isSmuggled: client.statuses.length > 1 };
    }),
  );
}

/** Bytes that are not TLS, or an aborted handshake. */
export async function spoilHandshakes(rig: Rig, count: number): Promise<void> {
  const plain = { port: rig.api.port, isTls: false };
  const junk = ['GET /v1/me HTTP/1.1\r\nHost: a\r\n\r\n', '\x16\x03\x01\x00\xff', '\0'.repeat(1_000), ''];
  for (let sent = 0; sent < count; sent += 20) {
    const clients = await openMany(plain, Math.min(20, count - sent));
    for (const [at, client] of clients.entries()) {
      client.write(junk[at % junk.length] ?? '');
      client.socket.resetAndDestroy();
    }
  }
}

/** Requests whose clients disconnect before the answer. */
export async function vanish(target: Target, bytes: string, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 20) {
    const clients = await openMany(target, Math.min(20, count - sent));
    for (const client of clients) client.write(bytes);
    await new Promise((next) => setImmediate(next));
    for (const client of clients) client.destroy();
  }
}

/** Sends expensive requests on one connection, and reads nothing. @returns the peak memory, in MiB. */
export async function neverRead(
  target: Target,
  request: string,
  sizes: { readonly clients: number; readonly requests: number; readonly watchMs: number },
  pid: number,
): Promise<{ beforeMib: number; mostMib: number }> {
  const beforeMib = residentMib(pid);
  let mostMib = beforeMib;
  const clients = await openMany(target, sizes.clients, false);
  for (const client of clients) client.write(request.repeat(sizes.requests));
  const endMs = Date.now() + sizes.watchMs;
  while (Date.now() < endMs) {
    mostMib = Math.max(mostMib, residentMib(pid));
    await sleep(systemTime, 50);
  }
  for (const client of clients) client.destroy();
  return { beforeMib, mostMib };
}

/** Several requests in one write. @returns the statuses in the order in which they arrived. */
export async function pipelined(target: Target, requests: readonly string[]): Promise<number[]> {
  const client = await exchange(target, requests.join(''));
  client.destroy();
  return client.statuses;
}
