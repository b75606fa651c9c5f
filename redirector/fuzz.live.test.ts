import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { differences, fuzz } from './testing/fuzz.ts';
import { Rows, TestEdge, until } from './testing/running-edge.ts';

const host = 'myapp.localhost';
let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
let edge: TestEdge;

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  const appId = await rows.app({ host, android: { package_name: 'com.example.app' } });
  await rows.link(appId, { short_code: 'summer', fallback_url: 'https://example.com/', utm_source: 'x' });
  edge = await TestEdge.start({ redis: redis.url, postgres: database.url });
});

afterAll(async () => {
  await edge.stop();
  await rows.db.close();
  await redis.stop();
  await database.stop();
});

/**
 * Sends bytes, optionally cuts the connection after some of them, and returns everything that arrives within a short
 * time.
 */
function send(bytes: Buffer, options: { cutAt?: number; waitMs?: number } = {}): Promise<string> {
  return new Promise((done) => {
    let answer = '';
    const socket = connect(edge.port, '127.0.0.1', () => {
      if (options.cutAt === undefined) socket.write(bytes);
      else socket.write(bytes.subarray(0, options.cutAt), () => socket.resetAndDestroy());
    });
    const timer = setTimeout(() => socket.destroy(), options.waitMs ?? 300);
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      done(answer);
    });
  });
}

const request = (lines: string[]) => Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
const browser = [
  'User-Agent: Mozilla/5.0 (Linux; Android 14)',
  'Accept-Language: de',
  'Referer: https://news.example/',
];
const plain = request(['GET /summer?a=1 HTTP/1.1', `Host: ${host}`, ...browser]);

/** All headers that an answer may have. Any other was injected by a visitor. */
const known = new Set(
  [
    'location',
    'cache-control',
    'content-length',
    'content-type',
    'x-content-type-options',
    'content-security-policy',
  ].concat(['vary', 'retry-after', 'allow', 'connection', 'date', 'transfer-encoding']),
);

function expectCleanAnswers(text: string): void {
  for (const head of text.split(/(?=HTTP\/1\.1 )/)) {
    const [status = '', ...lines] = (head.split('\r\n\r\n')[0] ?? '').split('\r\n');
    if (head === '') continue;
    expect(status).toMatch(/^HTTP\/1\.1 \d{3} /);
    for (const line of lines) expect(known, line).toContain(line.split(':')[0]?.toLowerCase());
  }
}

async function expectAlive(): Promise<void> {
  const reply = await edge.get(host, '/summer');
  expect(reply.status).toBe(302);
}

test('a connection that is cut after any byte of a request does no harm', async () => {
  for (let cutAt = 0; cutAt <= plain.length; cutAt++) await send(plain, { cutAt });
  await expectAlive();
  await until(() => edge.edge.state.waiting === 0, 'no request is left waiting');
});

test('pipelined requests are answered in order until a visit closes the connection, and other clients are unaffected', async () => {
  const robots = request(['GET /robots.txt HTTP/1.1', `Host: ${host}`]);
  const icon = request(['GET /favicon.ico HTTP/1.1', `Host: ${host}`]);
  const answers = await send(Buffer.concat([robots, icon, robots]), { waitMs: 500 });
  expectCleanAnswers(answers);
  expect([...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1])).toEqual(['200', '204', '200']);
  // uWebSockets.js does not accept a second request while the first waits (here: for the journal); RFC 9112 9.3.2 lets
  // clients retry.
  expectCleanAnswers(await send(Buffer.concat([plain, plain, robots])));
  await expectAlive();
});

test.each<[string, Buffer]>([
  ['two Content-Lengths', request(['GET /summer HTTP/1.1', `Host: ${host}`, 'Content-Length: 0', 'Content-Length: 5'])],
  [
    'a length and chunks',
    request(['GET /summer HTTP/1.1', `Host: ${host}`, 'Content-Length: 5', 'Transfer-Encoding: chunked']),
  ],
])('a request with %s is not redirected, and its connection ends', async (_, bytes) => {
  const answer = await send(bytes);
  expectCleanAnswers(answer);
  expect(answer).not.toContain('302 Found');
});

test.each(['GET /summer', 'HEAD /summer', 'GET /', 'GET /robots.txt', 'GET /unknown', 'POST /-/unlock'])(
  '%s with two hosts is a 400, whichever is ours, also for a link that was just visited',
  async (line) => {
    expect(await send(plain)).toContain('302 Found');
    for (const hosts of [
      [`Host: ${host}`, 'Host: evil.example'],
      ['Host: evil.example', `host: ${host}`],
      [`Host: ${host}`, `HOST: ${host}`],
    ]) {
      const answer = await send(request([`${line} HTTP/1.1`, ...hosts, ...browser]));
      expectCleanAnswers(answer);
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    }
    await expectAlive();
  },
);

test.each<[string, Buffer]>([
  ['no host', request(['GET /summer HTTP/1.1'])],
  ['an empty host', request(['GET /summer HTTP/1.1', 'Host: '])],
  ['a host of dots', request(['GET /summer HTTP/1.1', 'Host: ..%00..'])],
  ['an address as host', request(['GET /summer HTTP/1.1', 'Host: [::1]:80'])],
  ['a host of 4 KB', request(['GET /summer HTTP/1.1', `Host: ${'a'.repeat(3500)}`])],
  ['a path of 8 KB', request([`GET /${'a'.repeat(8000)} HTTP/1.1`, `Host: ${host}`])],
  ['a query of 3 KB', request([`GET /summer?${'%0d%0a'.repeat(500)} HTTP/1.1`, `Host: ${host}`])],
  ['line ends in the query', request(['GET /summer?a=%0d%0aSet-Cookie:%20a=b HTTP/1.1', `Host: ${host}`])],
  [
    'line ends in a utm field',
    request(['GET /summer?utm_source=%0d%0aX-Evil:1 HTTP/1.1', `Host: ${host}`, ...browser]),
  ],
  ['a bare line feed', Buffer.from(`GET /summer?a=\nX-Evil:1 HTTP/1.1\r\nHost: ${host}\r\n\r\n`)],
  ['NUL in the path', request(['GET /sum\0mer HTTP/1.1', `Host: ${host}`])],
  ['NUL in a header', request(['GET /summer HTTP/1.1', `Host: ${host}`, 'User-Agent: a\0b'])],
  [
    'bytes that are not UTF-8',
    request(['GET /summer?\xff\xfe=\xc0\x80 HTTP/1.1', `Host: ${host}`, 'User-Agent: \xf0\x28\x8c']),
  ],
  ['half an escape', request(['GET /summer?%=%2 HTTP/1.1', `Host: ${host}`])],
  ['an escaped code', request(['GET /%73ummer%2f%2e%2e HTTP/1.1', `Host: ${host}`])],
  ['an absolute address', request(['GET http://evil.example/summer HTTP/1.1', `Host: ${host}`])],
  ['a star', request(['OPTIONS * HTTP/1.1', `Host: ${host}`])],
  ['CONNECT', request(['CONNECT evil.example:443 HTTP/1.1', `Host: ${host}`])],
  ['an unknown method', request(['FROB /summer HTTP/1.1', `Host: ${host}`])],
  ['an upgrade', request(['GET /summer HTTP/1.1', `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket'])],
  ['HTTP/1.0', request(['GET /summer HTTP/1.0', `Host: ${host}`])],
  ['HTTP/2', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  ['a TLS hello', Buffer.from('160301020001000001fc0303', 'hex')],
  ['a header without a name', request(['GET /summer HTTP/1.1', `Host: ${host}`, ': x'])],
  [
    'a hundred headers',
    request(['GET /summer HTTP/1.1', `Host: ${host}`, ...Array.from({ length: 100 }, (_, n) => `X-${n}: 1`)]),
  ],
  ['a body', request(['GET /summer HTTP/1.1', `Host: ${host}`, 'Content-Length: 3', '', 'abc'])],
  ['a body that never arrives', request(['POST /summer HTTP/1.1', `Host: ${host}`, 'Content-Length: 999999999999'])],
  [
    'a chunked body without an end',
    request(['GET /summer HTTP/1.1', `Host: ${host}`, 'Transfer-Encoding: chunked', '', 'ffffffff']),
  ],
])('%s does no harm and injects no header into an answer', async (_, bytes) => {
  expectCleanAnswers(await send(bytes));
  await expectAlive();
});

test('random damage to a request does no harm', async () => {
  let seed = 20_261_121;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return (seed >>> 8) % below;
  };
  const damaged = Array.from({ length: 400 }, () => {
    const bytes = Buffer.from(plain);
    for (let times = 1 + random(4); times > 0; times--) bytes[random(bytes.length)] = random(256);
    return bytes;
  });
  for (let at = 0; at < damaged.length; at += 40) {
    for (const answer of await Promise.all(damaged.slice(at, at + 40).map((bytes) => send(bytes, { waitMs: 100 })))) {
      expectCleanAnswers(answer);
    }
  }
  await expectAlive();
  await until(() => edge.edge.state.waiting === 0, 'no request is left waiting');
});

test('HEAD for a path that needs no lookup keeps the process and the connection alive', async () => {
  for (const path of [
    '/robots.txt',
    '/favicon.ico',
    '/not%20a%20code',
    '/unknown',
    '/summer',
    '/.well-known/assetlinks.json',
  ]) {
    const head = request([`HEAD ${path} HTTP/1.1`, `Host: ${host}`]);
    const answers = await new Promise<string>((done) => {
      const socket = connect(edge.port, '127.0.0.1', () => socket.write(head));
      let text = '';
      socket.once('data', () => socket.write(plain));
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        if (/302 Found\r\n(?:.+\r\n)*Location: https:\/\/play/.test(text)) socket.destroy();
      });
      socket.on('error', () => {});
      socket.on('close', () => done(text));
    });
    expect(answers.match(/HTTP\/1\.1 \d{3}/g), path).toHaveLength(2);
  }
  await expectAlive();
});

test('of thousands of malformed requests each answer is valid, and each redirect is one click in the journal', {
  tags: ['slow'],
  timeout: 60_000,
}, async () => {
  const appHost = `fuzz-${host}`;
  const appId = await rows.app({ host: appHost, android: { package_name: 'com.example.app' } });
  await rows.link(appId, { short_code: 'Fuzzed', fallback_url: 'https://example.com/' });
  const before = edge.clicks().length;
  const result = await fuzz({ port: edge.port, host: appHost, code: 'Fuzzed' }, 4_000, 20_261_121);
  expect(result.findings.join('\n')).toBe('');
  expect(result.statuses[302]).toBeGreaterThan(500);
  await until(() => edge.edge.state.waiting === 0, 'no request is left waiting');
  const clicks = edge.clicks().slice(before);
  // A record with a NUL would be rejected as malformed and never counted.
  expect(clicks.filter((click) => Object.values(click).some((text) => String(text).includes('\0')))).toEqual([]);
  expect(
    differences(
      result,
      clicks.map(({ click_id, query }) => ({ click_id: String(click_id), query: String(query ?? '') })),
    ),
  ).toEqual([]);
});
