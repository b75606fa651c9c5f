import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { Type } from 'typebox';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Guard, mountRoutes } from './mount.ts';
import { invalid, notFound, unauthorized } from './rejection.ts';
import { routesOf } from './route.ts';
import { HttpServer, type ServerOptions } from './server.ts';

interface Deps {
  readonly greeting: string;
}
const route = routesOf<Deps, { name: string }>();
const tag = 'test';
const answers = { 200: { description: 'ok' } };

const routes = [
  route({
    method: 'POST',
    path: '/things/{id}',
    operationId: 'operation1',
    caller: 'user',
    limit: 'general',
    summary: 'Echoes',
    tag,
    answers,
    params: Type.Object({ id: Type.String() }),
    query: Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1 })) }, { additionalProperties: false }),
    body: Type.Object(
      {
        name: Type.String({ minLength: 1 }),
        ios: Type.Optional(Type.Object({ bundle_id: Type.String() }, { additionalProperties: false })),
        events: Type.Optional(Type.Array(Type.Object({ name: Type.String() }))),
      },
      { additionalProperties: false },
    ),
    handle: ({ greeting }, { caller, params, query, body, ip }) => ({
      status: 200,
      body: { greeting, caller: caller.name, id: params.id, limit: query.limit ?? null, name: body.name, ip },
    }),
  }),
  route({
    method: 'GET',
    path: '/throws',
    operationId: 'operation2',
    caller: 'public',
    limit: 'general',
    summary: 'Throws',
    tag,
    answers,
    handle: () => {
      throw new Error('secret text of the inside');
    },
  }),
  route({
    method: 'GET',
    path: '/unavailable',
    operationId: 'operation3',
    caller: 'public',
    limit: 'general',
    summary: 'Misses a store',
    tag,
    answers,
    handle: () => {
      throw new RangeError('secret text of the store');
    },
  }),
  route({
    method: 'POST',
    path: '/doors/{name}/open',
    operationId: 'operation4',
    caller: 'public',
    limit: 'general',
    summary: 'Knows one door',
    tag,
    answers,
    params: Type.Object({ name: Type.String() }),
    body: Type.Object({ key: Type.String() }),
    refuse: (_, { name }) => (name === 'front' ? null : notFound()),
    handle: () => ({ status: 200, body: {} }),
  }),
  route({
    method: 'GET',
    path: '/header',
    operationId: 'operation5',
    caller: 'public',
    limit: 'general',
    summary: 'Tries to split a header',
    tag,
    answers,
    handle: () => ({ status: 200, body: {}, headers: { 'X-Split': 'a\r\nX-Injected: yes' } }),
  }),
  route({
    method: 'GET',
    path: '/stream',
    operationId: 'operation6',
    caller: 'public',
    limit: 'general',
    summary: 'Streams 32 MiB',
    tag,
    answers,
    handle: () => ({ status: 200, contentType: 'text/plain', stream: megabytes(32) }),
  }),
  route({
    method: 'GET',
    path: '/late-stream',
    operationId: 'operation7',
    caller: 'public',
    limit: 'general',
    summary: 'Streams after the client has gone',
    tag,
    answers,
    handle: async () => {
      late.asked = true;
      await new Promise<void>((done) => {
        late.answer = done;
      });
      return { status: 200, contentType: 'text/plain', stream: lateStream() };
    },
  }),
  route({
    method: 'GET',
    path: '/broken-stream',
    operationId: 'operation8',
    caller: 'public',
    limit: 'general',
    summary: 'Streams a little and fails',
    tag,
    answers,
    handle: () => ({ status: 200, contentType: 'text/plain', stream: brokenStream() }),
  }),
];

const late: { asked: boolean; answer: () => void; hasEnded: boolean } = {
  asked: false,
  answer: () => undefined,
  hasEnded: false,
};

async function* lateStream(): AsyncGenerator<Uint8Array> {
  try {
    yield Buffer.from('late');
  } finally {
    late.hasEnded = true;
  }
}

async function* brokenStream(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('begun');
  throw new Error('in the middle');
}

async function* megabytes(count: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) yield await Promise.resolve(Buffer.alloc(1 << 20, 97 + at));
}

const quota = { limit: 100, remaining: 99, resetEpochSeconds: 1_800_000_000 };
const guard: Guard = (asked, incoming) => {
  if (asked?.caller === 'user' && incoming.header('authorization') !== 'Bearer ok') {
    return Promise.resolve({ rejection: unauthorized(), quota });
  }
  return Promise.resolve({ caller: { name: 'ada' }, quota });
};

let server: HttpServer;
let base: string;
const failures: unknown[] = [];
const unavailable: (readonly [where: string, requestId: string])[] = [];

beforeAll(async () => {
  server = await HttpServer.start({
    host: '127.0.0.1',
    httpsPort: null,
    httpPort: 0,
    trustedProxies: ['127.0.0.1'],
    corsOrigins: ['https://dash.example.com'],
    routes: mountRoutes({
      routes,
      deps: { greeting: 'hello' },
      guard,
      isOutage: (error) => error instanceof RangeError,
    }),
    guardUnknown: guard,
    onFailure: (error) => failures.push(error),
    onUnavailable: (where, id) => unavailable.push([where, id]),
  });
  base = `http://127.0.0.1:${server.httpPort}/v1`;
});
afterAll(() => server.stop(1000));

/** Another server of the same routes. */
const serverWith = (more: Partial<ServerOptions>) =>
  HttpServer.start({
    ...{ host: '127.0.0.1', httpsPort: null, httpPort: 0, trustedProxies: ['127.0.0.1'], corsOrigins: [] },
    routes: mountRoutes({ routes, deps: { greeting: 'hello' }, guard, isOutage: () => false }),
    guardUnknown: guard,
    onFailure: (error) => failures.push(error),
    ...more,
  });

const https = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.7' };
const json = { ...https, authorization: 'Bearer ok', 'content-type': 'application/json' };
const post = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}, query = '') =>
  fetch(`${base}/things/t1${query}`, { method: 'POST', headers: { ...json, ...headers }, body });

async function fieldOf(answer: Response): Promise<string> {
  expect(answer.status).toBe(400);
  const { error } = (await answer.json()) as { error: { code: string; details: { field: string } } };
  expect(error.code).toBe('VALIDATION_ERROR');
  return error.details.field;
}

test.each([
  ['no port', null, 'must be set'],
  ['a certificate that does not exist', 0, 'TLS_CERT_FILE (/nowhere/cert.pem)'],
])('a server with %s does not start, and says why', async (_, httpsPort, why) => {
  const start = HttpServer.start({
    host: '127.0.0.1',
    httpsPort,
    httpPort: null,
    certificates: [{ certFile: '/nowhere/cert.pem', keyFile: '/nowhere/key.pem', names: [], endsMs: 0 }],
    trustedProxies: [],
    corsOrigins: [],
    routes: [],
    guardUnknown: () => Promise.resolve({ caller: null, quota: null }),
    onFailure: () => undefined,
  });
  await expect(start).rejects.toThrow(why);
});

test('with a secret, a request without it is not taken for a proxy’s', async () => {
  const proxySecret = 'a secret of the proxy with enough characters';
  const own = await serverWith({ proxySecret });
  const statusWith = async (proof: Record<string, string>) => {
    const url = `http://127.0.0.1:${own.httpPort}/v1/things/t1?limit=3`;
    return (await fetch(url, { method: 'POST', headers: { ...json, ...proof }, body: '{"name":"x"}' })).status;
  };
  expect(await statusWith({})).toBe(403);
  expect(await statusWith({ 'x-signpost-proxy': 'another secret of the proxy with enough of them' })).toBe(403);
  expect(await statusWith({ 'x-signpost-proxy': proxySecret })).toBe(200);
  await own.stop(1000);
});

/** Sends the head of a request at once, and its body in pieces, each after the pause. @returns all that was answered. */
function trickle(port: number, body: string, pieceBytes: number, pauseMs: number): Promise<string> {
  return new Promise((done, fail) => {
    const socket = connect(port, '127.0.0.1');
    const lines = Object.entries({ ...json, host: 'api', 'content-length': String(body.length) });
    socket.write(`POST /v1/things/t1?limit=3 HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`);
    let at = 0;
    const timer = setInterval(() => {
      socket.write(body.slice(at, at + pieceBytes));
      at += pieceBytes;
      if (at >= body.length) clearInterval(timer);
    }, pauseMs);
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes.toString();
      if (text.includes('"greeting"')) socket.end();
    });
    socket.on('close', () => {
      clearInterval(timer);
      done(text);
    });
    socket.on('error', fail);
  });
}

test('a slow body is accepted while it keeps to the least rate; a slower one gets a 408 that says so, and its connection is closed', async () => {
  const own = await serverWith({ bodyPace: { graceMs: 100, bytesPerSecondMin: 1_000, msMax: 3_000 } });
  const body = JSON.stringify({ name: 'x'.repeat(4_000) });
  const [steady, slow, endless] = await Promise.all([
    trickle(own.httpPort, body, 200, 100),
    trickle(own.httpPort, body, 10, 100),
    trickle(own.httpPort, 'z'.repeat(60_000), 200, 100),
  ]);
  expect(steady).toMatch(/^HTTP\/1.1 200/);
  for (const refused of [slow, endless]) {
    expect(refused).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/);
    expect(refused).toMatch(/\r\nConnection: close\r\n/i);
    expect(refused).toContain('"reason":"slow_body"');
    expect(refused).toContain('Retry-After: 1');
  }
  await own.stop(1000);
});

test('bodies that wait take a bounded memory: the oldest that is not complete gives way to newer ones', async () => {
  const own = await serverWith({ bodiesBytesMax: 100_000 });
  const stalled = Array.from({ length: 5 }, () => {
    const socket = connect(own.httpPort, '127.0.0.1');
    const head = Object.entries({ ...json, host: 'api', 'content-length': '60000' }).map((line) => line.join(': '));
    socket.write(`POST /v1/things/t1 HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${'x'.repeat(40_000)}`);
    const one = { socket, text: '' };
    socket.on('data', (bytes) => {
      one.text += bytes.toString();
    });
    return one;
  });
  const refused = () => stalled.filter(({ text }) => text.startsWith('HTTP/1.1 408')).length;
  await vi.waitFor(() => expect(refused()).toBe(3));
  for (let round = 0; round < 20; round++) {
    const body = JSON.stringify({ name: 'x'.repeat(15_000) });
    const url = `http://127.0.0.1:${own.httpPort}/v1/things/t1?limit=3`;
    expect((await fetch(url, { method: 'POST', headers: json, body })).status).toBe(200);
  }
  // What was answered holds nothing any more.
  expect(refused()).toBe(3);
  for (const { socket } of stalled) socket.destroy();
  await own.stop(1000);
});

test('a valid request reaches its handler with parameters, query, body, caller and client address', async () => {
  const answer = await post('{"name":"x"}', {}, '?limit=3');
  expect(await answer.json()).toEqual({
    greeting: 'hello',
    caller: 'ada',
    id: 't1',
    limit: 3,
    name: 'x',
    ip: '192.0.2.7',
  });
  expect(answer.headers.get('x-ratelimit-limit')).toBe('100');
  expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
});

test.each([
  ['{"ios":{}}', 'name'],
  ['{"name":""}', 'name'],
  ['{"name":"x","ios":{}}', 'ios.bundle_id'],
  ['{"name":"x","nmae":1}', 'nmae'],
  ['{"name":"x","events":[{"name":"a"},{}]}', 'events[1].name'],
  ['[1]', 'body'],
  ['{"name":', 'body'],
  ['', 'body'],
  ['{"name":"a\\u0000b"}', 'name'],
  ['{"name":"a\\ud800b"}', 'name'],
  [`{"name":${'['.repeat(2000)}${']'.repeat(2000)}}`, `name${'[0]'.repeat(31)}`],
  [JSON.stringify({ name: 'x'.repeat(70_000) }), 'body'],
])('a faulty body is a 400 that names the field: %#', async (body, field) => {
  expect(await fieldOf(await post(body))).toBe(field);
});

test.each(['?limit=0', '?limit=x', '?limit=1&limit=2', '?limit='])(
  'a bad query parameter is a 400: %s',
  async (query) => {
    expect(await fieldOf(await post('{"name":"x"}', {}, query))).toBe('limit');
  },
);

test('every fault is listed', async () => {
  const answer = await post('{"name":"","ios":{}}');
  const { error } = (await answer.json()) as { error: { details: { errors: { field: string }[] } } };
  expect(error.details.errors.map((entry) => entry.field)).toEqual(['name', 'ios.bundle_id']);
});

test('a wrong content type is a 400', async () => {
  expect(await fieldOf(await post('{"name":"x"}', { 'content-type': 'text/plain' }))).toBe('content-type');
});

test('a gzip body is unpacked, and a bomb is refused at the same bound', async () => {
  const small = await post(gzipSync('{"name":"x"}'), { 'content-encoding': 'gzip' });
  expect(small.status).toBe(200);
  expect((await post(gzipSync('{"name":"x"}'), { 'content-encoding': 'GZIP' })).status).toBe(small.status);
  const bomb = gzipSync(JSON.stringify({ name: 'x'.repeat(10_000_000) }));
  expect(await fieldOf(await post(bomb, { 'content-encoding': 'gzip' }))).toBe('body');
});

test('plain HTTP is a 403 and never its data', async () => {
  const answer = await fetch(`${base}/things/t1`, { method: 'POST', headers: { authorization: 'Bearer ok' } });
  expect(answer.status).toBe(403);
  const details = { doc_url: '/v1/docs/api.md#errors' };
  expect(await answer.json()).toEqual({ error: { code: 'FORBIDDEN', message: 'HTTPS is required.', details } });
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('99');
});

test('a HEAD is answered like its GET, without a body', async () => {
  const options = { headers: https };
  for (const path of ['/throws', '/header', '/stream', '/nothing']) {
    const get = await fetch(base + path, options);
    const head = await fetch(base + path, { ...options, method: 'HEAD' });
    expect([head.status, head.headers.get('content-type')], path).toEqual([
      get.status,
      get.headers.get('content-type'),
    ]);
    expect(await head.text()).toBe('');
    await get.body?.cancel();
  }
  const door = await fetch(`${base}/doors/front/open`, { ...options, method: 'HEAD' });
  expect([door.status, door.headers.get('allow')]).toEqual([404, 'POST']);
  // The connection stays usable.
  expect((await fetch(`${base}/header`, options)).status).toBe(500);
});

test('an unknown address or method is answered 404 in the envelope, with the methods of a known address', async () => {
  for (const [method, path, allowed] of [
    ['GET', '/nothing', null],
    ['PATCH', '/throws', 'GET, HEAD'],
    ['PUT', '/throws', 'GET, HEAD'],
    ['GET', '/things/t1', 'POST'],
  ] as const) {
    const answer = await fetch(base + path, { method, headers: json });
    expect(answer.status).toBe(404);
    const message =
      allowed === null ? 'The requested resource does not exist.' : `This address accepts only ${allowed}.`;
    expect(await answer.json()).toMatchObject({ error: { code: 'NOT_FOUND', message } });
    expect(answer.headers.get('allow')).toBe(allowed);
  }
});

test('a programming error is answered 500 without its text, and is reported', async () => {
  const answer = await fetch(`${base}/throws`, { headers: https });
  expect(answer.status).toBe(500);
  expect(answer.headers.get('retry-after')).not.toBeNull();
  expect(await answer.text()).not.toContain('secret');
  expect(failures.length).toBeGreaterThan(0);
});

test('an unavailable store is a 500 with Retry-After, reported by its route and its request id and not as an error', async () => {
  failures.length = 0;
  const answer = await fetch(`${base}/unavailable`, { headers: https });
  expect(unavailable).toContainEqual(['GET /unavailable', answer.headers.get('x-request-id')]);
  expect(failures).toEqual([]);
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([500, '5']);
  const message = 'A part of the service is unavailable. Try again later.';
  const details = { doc_url: '/v1/docs/api.md#errors' };
  expect(await answer.json()).toEqual({ error: { code: 'INTERNAL_ERROR', message, details } });
});

test.each([
  ['nowhere', '{', 404],
  ['front', '{', 400],
  ['front', '{"key":"k"}', 200],
])('faults that no body could fix are reported before the body is read: %s %s', async (name, body, status) => {
  const answer = await fetch(`${base}/doors/${name}/open`, { method: 'POST', headers: json, body });
  expect(answer.status).toBe(status);
});

test.each([
  ['8.8.8.8:1234', '8.8.8.8'],
  ['[2001:db8::1]:443', '2001:db8::1'],
  ['[2001:DB8:0::1]', '2001:db8::1'],
  ['192.0.2.9, 8.8.8.8:65535', '8.8.8.8'],
  ['192.0.2.9, 127.0.0.1:8080', '192.0.2.9'],
  ['2001:db8::1', '2001:db8::1'],
  ['[nonsense]:443', '127.0.0.1'],
  ['8.8.8.8:port', '127.0.0.1'],
])('the client address is in X-Forwarded-For with or without its port: %s', async (forwarded, ip) => {
  const answer = await post('{"name":"x"}', { 'x-forwarded-for': forwarded });
  expect(await answer.json()).toMatchObject({ ip });
});

test('a header value with a line break is never sent', async () => {
  const answer = await fetch(`${base}/header`, { headers: https });
  expect(answer.status).toBe(500);
  expect(answer.headers.get('x-injected')).toBeNull();
});

test('a stream arrives complete', async () => {
  const answer = await fetch(`${base}/stream`, { headers: https });
  expect((await answer.arrayBuffer()).byteLength).toBe(32 << 20);
});

test('a stream whose client left while it was being prepared is closed, so that it releases its resources', async () => {
  const leaving = new AbortController();
  const gone = fetch(`${base}/late-stream`, { headers: https, signal: leaving.signal }).catch(() => 'gone');
  await vi.waitFor(() => expect(late.asked).toBe(true));
  leaving.abort();
  expect(await gone).toBe('gone');
  await vi.waitFor(() => expect(server.openRequests).toBe(0));
  late.answer();
  await vi.waitFor(() => expect(late.hasEnded).toBe(true));
});

test('a stream that fails halfway is cut off, and the reason is reported', async () => {
  failures.length = 0;
  const whole = fetch(`${base}/broken-stream`, { headers: https }).then((answer) => answer.text());
  await expect(whole).rejects.toThrow();
  expect(failures).toEqual([expect.objectContaining({ message: 'in the middle' })]);
});

test('a listed origin may read dashboard answers, another may not', async () => {
  const listed = await fetch(`${base}/throws`, { headers: { ...https, origin: 'https://dash.example.com' } });
  expect(listed.headers.get('access-control-allow-origin')).toBe('https://dash.example.com');
  const other = await fetch(`${base}/throws`, { headers: { ...https, origin: 'https://evil.example' } });
  expect(other.headers.get('access-control-allow-origin')).toBeNull();
});

/** Sends raw bytes and returns what arrived until the server closed the connection. */
function raw(text: string): Promise<string> {
  return new Promise((settle, fail) => {
    const socket = connect(server.httpPort, '127.0.0.1', () => socket.write(text));
    let got = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      got += chunk;
      socket.end();
    });
    socket.on('close', () => settle(got)).on('error', fail);
  });
}

test('two Content-Length headers are refused', async () => {
  const head =
    'POST /v1/things/t1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nContent-Type: application/json\r\n';
  const got = await raw(`${head}Content-Length: 12\r\nContent-Length: 2\r\n\r\n{"name":"x"}`);
  expect(got).toMatch(/^HTTP\/1.1 400/);
});

test.each(['Content-Length: 12\r\nContent-Length: 2', 'Content-Length: 12\r\nTransfer-Encoding: identity'])(
  'what follows a request without a clear end is never answered: %s',
  async (lengths) => {
    const head = 'POST /v1/things/t1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n';
    const behind = 'GET /v1/smuggled HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n';
    expect(await raw(`${head}${lengths}\r\n\r\n{"name":"x"}${behind}`)).not.toContain('NOT_FOUND');
  },
);

test('a client that disconnects during its body leaves no resources behind', async () => {
  const socket = connect(server.httpPort, '127.0.0.1');
  await new Promise((connected) => socket.once('connect', connected));
  socket.write(
    'POST /v1/things/t1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nAuthorization: Bearer ok\r\nContent-Length: 100\r\n\r\n{"na',
  );
  await expect.poll(() => server.openRequests).toBe(1);
  socket.destroy();
  await expect.poll(() => server.openRequests).toBe(0);
});

test('a second server on the same port is refused', async () => {
  await expect(
    HttpServer.start({
      host: '127.0.0.1',
      httpsPort: null,
      httpPort: server.httpPort,
      trustedProxies: [],
      corsOrigins: [],
      routes: [],
      guardUnknown: guard,
      onFailure: () => {},
    }),
  ).rejects.toThrow(/in use/);
});

test('a rejection names at least one field', () => {
  expect(invalid('path', 'is required').body).toEqual({
    error: {
      code: 'VALIDATION_ERROR',
      message: 'path: is required',
      details: { field: 'path', doc_url: '/v1/docs/api.md#errors' },
    },
  });
});

test('a stopping server answers the next request on an open connection, closes it, and accepts no other', async () => {
  const stopping = await HttpServer.start({
    ...{
      host: '127.0.0.1',
      httpsPort: null,
      httpPort: 0,
      trustedProxies: ['127.0.0.1'],
    },
    ...{ corsOrigins: [], routes: [], onFailure: () => undefined },
    guardUnknown: () => Promise.resolve({ caller: null, quota: null }),
  });
  const socket = connect(stopping.httpPort, '127.0.0.1');
  let received = '';
  socket.setEncoding('latin1').on('data', (chunk) => (received += String(chunk)));
  const closed = new Promise<void>((done) => socket.once('close', () => done()));
  const ask = () => socket.write('GET /v1/x HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n\r\n');
  const answers = () => received.match(/HTTP\/1\.1 404/g)?.length ?? 0;
  ask();
  await expect.poll(answers, { interval: 5 }).toBe(1);
  const stopped = stopping.stop(5_000);
  ask();
  await closed;
  expect(answers()).toBe(2);
  expect(received.slice(received.lastIndexOf('HTTP/1.1'))).toMatch(/connection: close/i);
  await stopped;
  const late = connect(stopping.httpPort, '127.0.0.1');
  expect(await new Promise((done) => late.once('error', (error: Error & { code?: string }) => done(error.code)))).toBe(
    'ECONNREFUSED',
  );
});
