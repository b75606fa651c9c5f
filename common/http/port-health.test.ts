import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PortHealth } from './port-health.ts';
import { HttpServer } from './server.ts';

let server: HttpServer;
beforeEach(async () => {
  server = await HttpServer.start({
    ...{ host: '127.0.0.1', httpsPort: null, httpPort: 0, trustedProxies: [], corsOrigins: [], routes: [] },
    onFailure: () => undefined,
    guardUnknown: () => Promise.reject(new Error('a health check was charged to a limit')),
  });
});
afterEach(() => server.stop(0));

/** The status of a health check, as a proxy makes it: over a new connection, without a visitor. */
async function check(): Promise<number | string> {
  try {
    const { status } = await fetch(`http://127.0.0.1:${server.httpPort}/healthz`, { headers: { connection: 'close' } });
    return status;
  } catch (error) {
    return error instanceof Error ? String(error.cause) : '';
  }
}

test('health checks fail while the port still accepts connections, so that a proxy stops sending before it is refused', async () => {
  expect(await check()).toBe(200);
  const stopped = server.stop(5_000);
  expect(await check()).toBe(503);
  await stopped;
  expect(await check()).toContain('ECONNREFUSED');
});

test('a port that no proxy checks closes without that delay', async () => {
  const announced = new PortHealth().announceStop().then(() => 'at once');
  expect(await Promise.race([announced, setImmediate('after a delay')])).toBe('at once');
});
