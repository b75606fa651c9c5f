/**
 * The stand-in for Redis as a process: `redis-stand-in.ts <password file> <port or path of a Unix socket>`. The package's own command listens on
 * every interface and supports no password, so this file assembles its parts.
 */
import { once } from 'node:events';
import { createRedisCommandExecutor, RedisServerState, Resp2Server } from 'js-redis-server/core';
import { closeNewFiles } from '#common/process/config.ts';
import { storedPassword } from './stored-password.ts';

closeNewFiles();
const databaseCount = 1;
const [passwordFile = '', at = ''] = process.argv.slice(2);
if (passwordFile === '' || at === '') {
  console.error('Usage: redis-stand-in.ts <password file> <port or path of a Unix socket>');
  process.exit(1);
}

const state = new RedisServerState({ databaseCount, requirepass: storedPassword(passwordFile) });
const resp = new Resp2Server({ server: state, executor: createRedisCommandExecutor() });
resp.server.listen(at.startsWith('/') ? { path: at } : { port: Number(at), host: '127.0.0.1' });
await once(resp.server, 'listening');
console.log(`the Redis stand-in listens on ${at}`);

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(0));
