/** Ingest as a separate process, started without any of the servers that it needs. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { childEnvironment } from '#common/process/config.ts';
import { freePort } from '#deploy/local/ports.ts';

test('while NATS is unreachable, ingest stays up, reports what it waits for, and stops when asked', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ingest-start-'));
  const [port, unused] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, ['dist/ingest/main.js'], {
    env: childEnvironment({
      DATA_DIR: folder,
      METRICS_PORT: String(port),
      NATS_URL: `nats://127.0.0.1:${unused}`,
      DATABASE_URL: `postgres://127.0.0.1:${unused}/none`,
      CLICKHOUSE_URL: `http://127.0.0.1:${unused}/none`,
    }),
    stdio: 'ignore',
  });
  const exited = new Promise<number | null>((done) => child.once('exit', done));
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
  await expect.poll(async () => (await ask('/healthz'))?.status, { timeout: 10_000 }).toBe(200);
  const ready = await ask('/readyz');
  expect([ready?.status, await ready?.json()]).toMatchObject([503, { checks: { nats: 'not connected' } }]);
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  rmSync(folder, { recursive: true });
});
