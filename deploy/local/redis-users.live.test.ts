/** Permissions in the Redis that runs on this machine: by user in the real server, only by password in the stand-in. */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Redis } from '#common/stores/redis.ts';
import { findRedis, type RedisRole, type RedisServer, startRedis } from './redis.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'signpost-redis-users-'));
let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ dataDir, port: 0 });
});

afterAll(async () => {
  await server.stop();
  rmSync(dataDir, { recursive: true });
});

/** The server's answer to these lines. */
function said(lines: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.port, '127.0.0.1');
    socket.once('error', reject);
    socket.once('data', (bytes) => {
      socket.destroy();
      resolve(bytes.toString());
    });
    socket.write(lines);
  });
}

test.each(['PING', 'GET link:2:x', 'FLUSHALL', 'CONFIG GET dir', 'EVAL "return 1" 0', 'SUBSCRIBE links:changes'])(
  'without a password no client can %s',
  async (command) => {
    expect(await said(`${command}\r\n`)).toMatch(/^-NOAUTH/);
    expect(await said(`AUTH default wrong\r\n${command}\r\n`)).toMatch(/^-WRONGPASS/);
  },
);

test('only the owner of the password files can read them', () => {
  const files = ['password-operator', 'password-signpost', 'password-redirector'];
  if (!findRedis().isStandIn) files.push('redis.conf');
  for (const file of files) expect([file, statSync(join(dataDir, file)).mode & 0o777]).toEqual([file, 0o600]);
});

async function canDo(role: RedisRole, work: (redis: Redis) => Promise<unknown>): Promise<boolean> {
  const redis = new Redis({ url: server.urlOf(role), name: role });
  try {
    await redis.connect();
    await work(redis);
    return true;
  } catch (error) {
    expect(String(error)).toContain('NOPERM');
    return false;
  } finally {
    await redis.close();
  }
}

const commands: [string, (redis: Redis) => Promise<unknown>, RedisRole[]][] = [
  ['keep a link', ({ commands: to }) => to.set('link:2:a', '1', 'PX', 1_000, 'NX'), ['redirector', 'signpost']],
  ['announce a link', ({ commands: to }) => to.publish('links:changes', 'x'), ['redirector', 'signpost']],
  ['ask about a code', ({ commands: to }) => to.publish('links:asks', 'x'), ['redirector', 'signpost']],
  ['clear a limit', ({ commands: to }) => to.del('limit:auth:x'), ['signpost']],
  ['read a click', ({ commands: to }) => to.get('click:x'), ['signpost']],
  ['run a script', ({ commands: to }) => to.eval('return 1', 0), ['signpost']],
  ['delete everything', ({ commands: to }) => to.flushall(), []],
  ['configure the server', ({ commands: to }) => to.config('SET', 'dir', '/tmp'), []],
  ['list the users', ({ commands: to }) => to.call('ACL', 'LIST'), []],
  ['list all keys', ({ commands: to }) => to.keys('*'), []],
];

test.runIf(!findRedis().isStandIn).each(commands)('only roles that need to can %s', async (_, work, allowed) => {
  const able: RedisRole[] = [];
  for (const role of ['redirector', 'signpost'] as const) if (await canDo(role, work)) able.push(role);
  expect(able).toEqual(allowed);
});
