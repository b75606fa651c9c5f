import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { loadConfig } from '#common/process/config.ts';
import { unreachableServers } from './configured-servers.ts';
import { freePort } from './ports.ts';

test('every configured server that is unreachable is named in one sentence, without its password', async () => {
  const [open, dead] = [await freePort(), await freePort()];
  const server = createServer().listen(open, '127.0.0.1');
  const config = loadConfig([], {
    DATABASE_URL: `postgres://me:hush@127.0.0.1:${dead}/db`,
    NATS_URL: `nats://127.0.0.1:${dead}`,
    REDIS_URL: `redis://127.0.0.1:${open}`,
    CLICKHOUSE_URL: `http://me:hush@[::1]:${dead}/db`,
  });
  const faults = await unreachableServers(config);
  await new Promise((done) => server.close(done));
  expect([...faults.keys()]).toEqual(['DATABASE_URL', 'NATS_URL', 'CLICKHOUSE_URL']);
  expect(faults.get('DATABASE_URL')).toContain(`Postgres cannot be reached at 127.0.0.1:${dead} (ECONNREFUSED)`);
  expect([...faults.values()].join()).not.toContain('hush');
});

test('servers without a configured URL, and sockets in folders, are not checked', async () => {
  const config = loadConfig([], { DATABASE_URL: 'postgres:///db?host=/run/postgresql' });
  expect(await unreachableServers(config)).toEqual(new Map());
});
