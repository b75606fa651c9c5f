/** Traces with a collector that accepts, rejects, hangs or is absent. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { createLog } from '#common/process/telemetry.ts';
import { whenQuiet } from '#testing/busy-machine.ts';
import { RequestTraces } from './request-traces.ts';
import { newSpanId, Tracing } from './tracing.ts';

interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** @param status the status of its responses; 0: it never responds. */
async function collector(status: number): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      received.push({ path: request.url ?? '', headers: request.headers, body });
      if (status > 0) response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((done) => server?.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

const quiet = createLog('test', { LOG_LEVEL: 'silent', INSTANCE: '' });

async function tracingTo(url: string, fraction = 1): Promise<Tracing> {
  const tracing = await Tracing.open(
    'api',
    {
      INSTANCE: '',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-token=a%20b',
      OTEL_TRACES_SAMPLER_ARG: fraction,
    },
    quiet,
    new Registry(),
  );
  if (tracing === undefined) throw new Error('there are no traces');
  return tracing;
}

function addOne(tracing: Tracing): void {
  const place = { traceId: 'a'.repeat(32), spanId: newSpanId() };
  tracing.add(place, { name: 'GET /links', kind: 'server', startMs: 1, endMs: 2 });
}

const ended = (status: number) => ({ route: 'GET /links', status, requestId: 'req_1', endMs: Date.now() });

test('the spans of a request are sent when the process ends, with its headers, below each other and without values of its statements', async () => {
  const { url, received } = await collector(200);
  const tracing = await tracingTo(`${url}/`);
  const request = new RequestTraces(tracing).follow('', Date.now());
  const around = tracing.trails.around('postgresql');
  await request?.run(async () => {
    await around(`SELECT 'secret' FROM links WHERE id = $1`, () => Promise.resolve());
    await expect(around('DELETE FROM apps', () => Promise.reject(new TypeError('a secret')))).rejects.toThrow();
  });
  request?.end(ended(500));
  await around('SELECT 1', () => Promise.resolve());
  await tracing.stop();

  expect(received.map(({ path, headers }) => [path, headers['x-token']])).toEqual([['/v1/traces', 'a b']]);
  const [{ body = '' } = {}] = received;
  expect(body).not.toContain('secret');
  const sent = JSON.parse(body) as {
    resourceSpans: {
      scopeSpans: { spans: { name: string; spanId: string; parentSpanId?: string; status: { code?: number } }[] }[];
    }[];
  };
  const spans = sent.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
  const root = spans[0]?.spanId;
  expect(spans.map(({ name, parentSpanId, status }) => [name, parentSpanId, status.code])).toEqual([
    ['GET /links', undefined, 2],
    ['SELECT links', root, 0],
    ['DELETE apps', root, 2],
  ]);
  expect(tracing.counters).toEqual({ sent: 3, failed: 0, dropped: 0 });
});

test('the sampling of a parent decides, and without one the fraction', async () => {
  const { url } = await collector(200);
  const parent = (flags: string) => `00-${'b'.repeat(32)}-${'c'.repeat(16)}-${flags}`;
  const none = new RequestTraces(await tracingTo(url, 0));
  expect(none.follow('', 1)).toBeUndefined();
  expect(none.follow('nonsense', 1)).toBeUndefined();
  expect(none.follow(parent('00'), 1)).toBeUndefined();
  expect(none.follow(parent('01'), 1)).toBeDefined();
  const all = new RequestTraces(await tracingTo(url, 1));
  expect(all.follow('', 1)).toBeDefined();
  expect(all.follow(parent('00'), 1)).toBeUndefined();
});

test('a collector that never answers holds a bounded number of spans, and delays the end of a process only briefly', async () => {
  const { url, received } = await collector(0);
  const tracing = await tracingTo(url);
  for (let n = 0; n < 10_000; n++) addOne(tracing);
  await expect.poll(() => received.length).toBeGreaterThan(0);
  for (let n = 0; n < 10_000; n++) addOne(tracing);
  expect(tracing.counters.dropped).toBe(20_000 - 2_048);
  const startedAt = performance.now();
  await tracing.stop();
  expect(performance.now() - startedAt).toBeLessThan(2_000 + whenQuiet(2_000));
});

test('spans that a collector refuses are counted as failed', async () => {
  const { url } = await collector(400);
  const refused = await tracingTo(url);
  addOne(refused);
  await refused.stop();
  expect(refused.counters).toEqual({ sent: 0, failed: 1, dropped: 0 });
});

test('without a collector there are no traces', async () => {
  const settings = { INSTANCE: '', OTEL_EXPORTER_OTLP_HEADERS: '', OTEL_TRACES_SAMPLER_ARG: 1 };
  expect(
    await Tracing.open('api', { ...settings, OTEL_EXPORTER_OTLP_ENDPOINT: '' }, quiet, new Registry()),
  ).toBeUndefined();
});
