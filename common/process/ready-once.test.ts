import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ReadyOnce } from './ready-once.ts';
import { createMetrics, type ReadinessCheck, startTelemetry } from './telemetry.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-ready-'));
afterAll(() => rmSync(folder, { recursive: true }));

const secret = 'redis://:a-password@redis:6379';
const configOf = (url: string) => ({ DATA_DIR: folder, INSTANCE: 'edge-0', REDIS_URL: url });

/** What a probe is answered by a process that starts with this URL, while its store answers or not. */
async function probed(url: string, redis: ReadinessCheck, config = configOf(url)): Promise<number> {
  const readyOnce = new ReadyOnce('redirector', config);
  const server = await startTelemetry({
    host: '127.0.0.1',
    port: 0,
    metrics: createMetrics('test'),
    checks: { redis },
    readyOnce,
  });
  try {
    return (await fetch(`${server.url}/startupz`)).status;
  } finally {
    await server.close();
  }
}

test('a process with a wrong password never counts as started; one that was ready does after a restart in an outage', async () => {
  expect(await probed(secret, () => false)).toBe(503);
  mkdirSync(join(folder, 'ready'));
  // As an earlier release wrote it.
  writeFileSync(join(folder, 'ready', 'redirector-edge-0'), '', { mode: 0o644 });
  expect(await probed(secret, () => true)).toBe(200);
  expect(statSync(join(folder, 'ready', 'redirector-edge-0')).mode & 0o777).toBe(0o600);
  expect(await probed(secret, () => false)).toBe(200);
  expect(await probed(`${secret}/changed`, () => false)).toBe(503);
  expect(await probed(secret, () => false, { ...configOf(secret), INSTANCE: 'edge-1' })).toBe(503);
});

test('what is kept does not contain a password', async () => {
  await probed(secret, () => true);
  const kept = readFileSync(join(folder, 'ready', 'redirector-edge-0'));
  expect(kept.includes('a-password')).toBe(false);
  expect(statSync(join(folder, 'ready', 'redirector-edge-0')).size).toBe(48);
});

test('a process that was ready stays started, also without a folder to write to', async () => {
  writeFileSync(join(folder, 'a-file'), '');
  let isUp = true;
  const readyOnce = new ReadyOnce('api', { ...configOf(secret), DATA_DIR: join(folder, 'a-file') });
  const checks = { store: () => isUp };
  const server = await startTelemetry({
    host: '127.0.0.1',
    port: 0,
    metrics: createMetrics('test'),
    checks,
    readyOnce,
  });
  const ask = async (path: string) => (await fetch(`${server.url}${path}`)).status;
  expect(await ask('/startupz')).toBe(200);
  isUp = false;
  expect([await ask('/readyz'), await ask('/startupz'), await ask('/healthz')]).toEqual([503, 200, 200]);
  await server.close();
});

test('what fails for the records of a process, such as a damaged journal, does not keep it from counting as started', async () => {
  const checks = { nats: () => true, journals: () => '1 damaged' };
  const server = await startTelemetry({
    host: '127.0.0.1',
    port: 0,
    metrics: createMetrics('test'),
    checks,
    laterChecks: ['journals'],
  });
  const ask = async (path: string) => (await fetch(`${server.url}${path}`)).status;
  expect([await ask('/readyz'), await ask('/startupz')]).toEqual([503, 200]);
  await server.close();
});
