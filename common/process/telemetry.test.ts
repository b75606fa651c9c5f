import { type IncomingMessage, request } from 'node:http';
import { Counter } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { createLog, createMetrics, readiness, startTelemetry, type TelemetryServer } from './telemetry.ts';

const open: TelemetryServer[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

async function serve(checks: Parameters<typeof readiness>[0]) {
  const metrics = createMetrics('test');
  const server = await startTelemetry({ host: '127.0.0.1', port: 0, hostNames: ['Metrics.internal'], metrics, checks });
  open.push(server);
  return { url: server.url, metrics };
}

test('metrics are in the text format, with the name of the process on each', async () => {
  const { url, metrics } = await serve({});
  new Counter({ name: 'clicks_total', help: 'Clicks.', registers: [metrics] }).inc(3);
  const response = await fetch(`${url}/metrics`);
  expect(response.headers.get('content-type')).toContain('text/plain');
  const text = await response.text();
  expect(text).toContain('clicks_total{process="test"} 3');
  expect(text).toContain('process_cpu_seconds_total');
});

test.each([
  ['127.0.0.1:9100', 200],
  ['localhost', 200],
  ['LOCALHOST:9100', 200],
  ['[::1]:9100', 200],
  ['10.1.2.3', 200],
  ['metrics.internal:9100', 200],
  ['evil.example', 421],
  ['localhost.evil.example', 421],
  ['127.0.0.1.evil.example:9100', 421],
  ['metrics.internal.evil.example', 421],
])(
  'metrics requested with host %s get %i, so that a web page whose name resolves here reads nothing',
  async (host, status) => {
    const { url } = await serve({});
    const answered = await new Promise<IncomingMessage>((done, fail) => {
      request(`${url}/metrics`, { headers: { host }, agent: false }, done).on('error', fail).end();
    });
    answered.resume();
    expect([answered.statusCode, answered.headers['x-content-type-options']]).toEqual([status, 'nosniff']);
  },
);

test('/readyz is 200 while every check passes, else 503 with the reason; /healthz is always 200', async () => {
  let isUp = true;
  const { url } = await serve({ store: () => isUp || 'unavailable', log: async () => true });
  expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ ready: true, checks: { store: 'ok', log: 'ok' } });
  isUp = false;
  const response = await fetch(`${url}/readyz`);
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual({ ready: false, checks: { store: 'unavailable', log: 'ok' } });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

test('a check that throws is reported by its error kind, never by its text', async () => {
  const fails = () => {
    throw new TypeError('postgres://user:secret@host');
  };
  expect(await readiness({ store: fails, other: () => Promise.reject(new Error('secret')) })).toEqual({
    ready: false,
    checks: { store: 'TypeError', other: 'Error' },
  });
});

test('only three paths exist, and only for reading', async () => {
  const { url } = await serve({});
  expect((await fetch(`${url}/`)).status).toBe(404);
  expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405);
});

test('no secret reaches the log, neither by its name nor in the Redis command that failed', () => {
  const lines: string[] = [];
  const log = createLog('test', { LOG_LEVEL: 'debug', INSTANCE: '' }, { write: (line) => lines.push(line) });
  const command = { name: 'auth', args: ['default', 'hunter2'] };
  const err = Object.assign(new Error('WRONGPASS invalid username-password pair'), { command });
  log.debug({ err }, 'Redis is unavailable');
  log.error(err);
  log.info({ password: 'hunter2', body: { api_key: 'hunter2' } }, 'asked');
  expect(lines.join('')).not.toContain('hunter2');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: 'Redis is unavailable', err: { message: err.message, command: { name: 'auth' } } },
    { err: { message: err.message } },
    { msg: 'asked' },
  ]);
});

test('a row that Postgres refused does not reach the log with the error', () => {
  const lines: string[] = [];
  const log = createLog('test', { LOG_LEVEL: 'debug', INSTANCE: '' }, { write: (line) => lines.push(line) });
  const err = Object.assign(new Error('new row violates check constraint "c"'), {
    ...{ code: '23514', detail: 'Failing row contains (ada@example.com).' },
  });
  log.error({ err }, 'failed');
  log.error(err);
  expect(lines.join('')).not.toContain('ada@example.com');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject(Array(2).fill({ err: { code: '23514' } }));
});
