import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { seededRandom } from '#common/seeded-random.ts';
import { SdkEdge } from './testing/sdk-edge.ts';

/** Raised with FAULTS_REQUESTS. */
const REQUESTS = Number(process.env['FAULTS_REQUESTS'] ?? 3_000);
const AT_ONCE = 24;
const SILENT_MS = 400;
const GROWTH_MIB = 250;

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start({
    ...{ RATE_LIMIT_EVENTS: '1000000', RATE_LIMIT_MATCH: '1000000', RATE_LIMIT_LINKS: '1000000' },
    RATE_LIMIT_GENERAL: '1000000',
  });
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

const bomb = gzipSync(Buffer.alloc(64 << 20, ' '));
const paths = [
  'events',
  'events',
  'events',
  'match',
  'install',
  'links',
  'segment/v1/batch',
  'posthog/batch/',
  'segment/v1/t',
  'posthog/e/',
];
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
const values = [
  ...['1', '"x"', 'null', 'true', '[]', '{}', '-0', '1e400', '-1e400', '1e-400', '123456789012345678901234567890'],
  ...['"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"\\ud83d\\ude00"', '"\xff\xfe"', `"${'x'.repeat(50_000)}"`],
  ...['"2026-13-45T99:99:99Z"', '"+275760-09-13T00:00:00Z"', '{"__proto__":{"x":1}}', '{"constructor":1}'],
  ...[nested(40), nested(5_000), `[${'['.repeat(5_000)}${']'.repeat(5_000)}]`, '01', 'NaN', "'x'", '"\\x"', '"\n"', ''],
];
const names = [
  'name',
  'properties',
  'timestamp',
  'revenue',
  'platform',
  'install_id',
  'click_id',
  'url',
  'path',
  'data',
];

interface Planned {
  readonly bytes: Buffer;
  /** Sends exactly these bytes, then closes the connection. */
  readonly cutAt: number | undefined;
}

function planned(random: () => number, number: number, key: string): Planned {
  const pick = <T>(from: readonly T[], otherwise: T): T => from[Math.floor(random() * from.length)] ?? otherwise;
  const fields = [`"event_id":"f-${number}"`, '"name":"a"', '"device_id":"d"', '"platform":"ios"', '"path":"/p"'];
  const odd = random() < 0.7 ? [`"${pick(names, '')}":${pick(values, '1')}`] : [];
  const one = `{${[...fields, ...odd].join(',')}}`;
  const shapes = [
    one,
    one,
    `{"events":[${one}]}`,
    `{"events":[${one},${pick(values, '1')}]}`,
    `[${one}]`,
    `\xef\xbb\xbf${one}`,
  ];
  let body = Buffer.from(random() < 0.9 ? pick(shapes, one) : pick(values, ''), 'latin1');
  if (random() < 0.1) body = body.subarray(0, Math.floor(random() * body.length));
  if (random() < 0.1) for (let n = 0; n < 3; n++) body[Math.floor(random() * body.length)] = Math.floor(random() * 256);
  const headers = [`Host: a`, 'X-Forwarded-Proto: https', 'X-Forwarded-For: 198.51.100.7'];
  headers.push(
    random() < 0.95 ? `X-API-Key: ${key}` : pick(['X-API-Key: lk_x', 'Authorization: Bearer \xff', 'X-A: 1'], ''),
  );
  headers.push(
    `Content-Type: ${random() < 0.95 ? 'application/json' : pick(['text/plain', '', 'application/json;x=\xff'], '')}`,
  );
  const packing = random();
  if (packing < 0.1) {
    const packed = pick(
      [gzipSync(body), gzipSync(body).subarray(0, 20), bomb, body, Buffer.concat([gzipSync(body), body])],
      body,
    );
    headers.push(`Content-Encoding: ${pick(['gzip', 'gzip', 'gzip', 'deflate', 'gzip, gzip', 'br'], 'gzip')}`);
    body = packed;
  }
  if (random() < 0.12) {
    const size = pick([body.length.toString(16), body.length.toString(16), '-1', 'ffffffffffffffff', 'zz', ''], '0');
    headers.push('Transfer-Encoding: chunked');
    body = Buffer.concat([Buffer.from(`${size}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]);
  } else {
    const length = random() < 0.92 ? body.length : pick([-1, 0, body.length + 9, 2 ** 40, 1.5], 0);
    headers.push(`Content-Length: ${length}`);
    if (random() < 0.02) headers.push('Content-Length: 1');
  }
  const method = random() < 0.97 ? 'POST' : pick(['GET', 'PUT', 'HEAD', 'OPTIONS', 'FROB'], 'GET');
  const head = `${method} /v1/sdk/${pick(paths, 'events')} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`;
  const bytes = Buffer.concat([Buffer.from(head, 'latin1'), body]);
  return { bytes, cutAt: random() < 0.05 ? Math.floor(random() * bytes.length) : undefined };
}

function send(port: number, { bytes, cutAt }: Planned): Promise<string> {
  return new Promise((done) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => {
      if (cutAt === undefined) socket.write(bytes);
      else socket.write(bytes.subarray(0, cutAt), () => socket.resetAndDestroy());
    });
    let timer = setTimeout(() => socket.destroy(), SILENT_MS);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
      clearTimeout(timer);
      const isWhole = text.length >= text.indexOf('\r\n\r\n') + 4 + length;
      timer = setTimeout(() => socket.destroy(), isWhole ? 0 : SILENT_MS);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      done(text);
    });
  });
}

const statuses = new Set([200, 201, 202, 400, 401, 403, 404, 413, 431, 505]);
const codes = new Set(['UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'VALIDATION_ERROR']);

/** Describes what is wrong with an answer; empty if it is valid. */
function faultOf(text: string): string {
  if (text === '') return '';
  const [head = '', body = ''] = text.split(/\r\n\r\n(.*)/s);
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
  if (!statuses.has(status)) return `status ${status}`;
  if (/node_modules|\bat \S+ \(|SELECT|\.ts:\d/.test(body)) return 'an answer that reveals internals';
  if (!/\r\ncontent-type: application\/json/i.test(head) || status < 400 || body === '') return '';
  const parsed: { error?: { code?: string } } = JSON.parse(Buffer.from(body, 'latin1').toString());
  return parsed.error === undefined || codes.has(parsed.error.code ?? '') ? '' : `code ${parsed.error.code}`;
}

test('malformed bodies of every kind get the documented answer, and accepted events are in the journal once', async () => {
  const { app_id, key } = await edge.app();
  const port = Number(new URL(edge.base).port);
  const random = seededRandom(20_261_121);
  const findings: string[] = [];
  const counts: Record<string, number> = {};
  let [next, accepted, unanswered] = [0, 0, 0];
  const before = process.memoryUsage().rss;
  const lane = async () => {
    while (next < REQUESTS) {
      const plan = planned(random, next++, key);
      const text = await send(port, plan);
      const status = text.slice(9, 12);
      counts[status] = (counts[status] ?? 0) + 1;
      if (text === '') unanswered++;
      accepted += Number(/"accepted":(\d+)/.exec(text)?.[1] ?? 0);
      const fault = faultOf(text);
      if (fault !== '') findings.push(`${fault}: ${JSON.stringify(plan.bytes.toString('latin1').slice(0, 500))}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  console.log(`${REQUESTS} requests: ${JSON.stringify(counts)}, accepted ${accepted}`);
  expect(findings.slice(0, 5).join('\n')).toBe('');
  const alive = await edge.post('/sdk/events', key, { name: 'last', device_id: 'd', event_id: 'last' });
  expect(alive.status).toBe(202);
  const kept = edge.events(app_id).map(({ event_id }) => event_id);
  expect(new Set(kept).size).toBe(kept.length);
  const ofSdk = kept.filter((id) => id.startsWith('f-')).length;
  expect(kept.length - 1).toBeGreaterThanOrEqual(accepted);
  expect(ofSdk).toBeGreaterThan(REQUESTS / 50);
  expect(unanswered).toBeLessThan(REQUESTS / 4);
  expect((process.memoryUsage().rss - before) / 1_048_576).toBeLessThan(GROWTH_MIB);
}, 900_000);
