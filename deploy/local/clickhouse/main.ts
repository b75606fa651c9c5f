/**
 * ClickHouse for one machine, as a process: `main.ts <data folder> <port on loopback or path of a Unix socket>`.
 * The passwords are next to the folder.
 */
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { closeNewFiles } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';
import { Engine } from './engine.ts';
import { ClickHouseServer, defaultLimits } from './http-server.ts';
import { MergeGuard, roomOf } from './merge-guard.ts';
import { clickhousePasswords, Users } from './users.ts';

closeNewFiles();
const drainMs = 20_000;
const [dataDir = '', at = '8123', ...more] = process.argv.slice(2);

function fail(sentence: string): never {
  console.error(sentence);
  process.exit(1);
}

if (dataDir === '' || more.length > 0 || !(at.startsWith('/') || /^\d{1,5}$/.test(at))) {
  fail('Usage: main.ts <data folder> <port or path of a Unix socket>. It has no TLS, so ports are on loopback only.');
}

function openEngine(): Engine {
  try {
    mkdirSync(dataDir, { recursive: true });
    return new Engine(dataDir);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail(`${dataDir} cannot be opened; another process may be using it. The engine reports: ${reason}`);
  }
}

const users = new Users(clickhousePasswords(dirname(resolve(dataDir))));
const engine = openEngine();
const mergeGuard = new MergeGuard({
  room: () => roomOf(dataDir),
  setMerges: (state) => engine.setMerges(state),
  log: (line) => console.log(line),
});
await mergeGuard.start();
const rules = { tableFunctionsOfEngine: await engine.tableFunctions() };
const server = new ClickHouseServer(engine, { users, rules }, defaultLimits);

server.http.once('error', (error) => fail(`Cannot listen on ${at}: ${error.message}`));
server.http.listen(at.startsWith('/') ? { path: at } : { port: Number(at), host: '127.0.0.1' });
await once(server.http, 'listening');
console.log(`ClickHouse (chdb) answers on ${at}, its data in ${dataDir}`);

async function stop(): Promise<void> {
  server.http.close();
  server.http.closeIdleConnections();
  const deadline = Date.now() + drainMs;
  while (server.busy > 0 && Date.now() < deadline) await sleep(systemTime, 20);
  await mergeGuard.stop();
  engine.close();
  process.exit(0);
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop());
