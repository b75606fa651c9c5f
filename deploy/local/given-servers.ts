/** Servers that were given by their URLs: whether anybody is there at all, before anything is started. */
import { connect } from 'node:net';
import type { Config } from '#common/config.ts';

const answerMsMax = 3_000;

const given = {
  DATABASE_URL: { server: 'Postgres', port: 5432 },
  REDIS_URL: { server: 'Redis', port: 6379 },
  NATS_URL: { server: 'NATS', port: 4222 },
  // The client library takes the scheme's own port.
  CLICKHOUSE_URL: { server: 'ClickHouse', port: 80 },
} as const;

/** One sentence, with the name of the setting, for each server given that takes no connection within 3 s. */
export async function unreachableServers(config: Pick<Config, keyof typeof given>): Promise<string[]> {
  const names = ['DATABASE_URL', 'REDIS_URL', 'NATS_URL', 'CLICKHOUSE_URL'] as const;
  const faults = await Promise.all(names.map((name) => serverFault(name, config[name])));
  return faults.filter((fault) => fault !== null);
}

async function serverFault(name: keyof typeof given, text: string): Promise<string | null> {
  if (text === '') return null;
  const url = new URL(text);
  // Without a host it leads to a socket in a folder.
  if (url.hostname === '') return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : given[name].port);
  const fault = await connectFault(host, port);
  if (fault === null) return null;
  return `${name}: ${given[name].server} can't be reached at ${url.hostname}:${port} (${fault}); without ${name}, npm start runs one of its own`;
}

function connectFault(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    // Covers the look-up of the name too, which a timeout of the socket does not.
    const timer = setTimeout(() => finish(`no answer in ${answerMsMax / 1000} s`), answerMsMax);
    const finish = (fault: string | null) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(fault);
    };
    socket.once('connect', () => finish(null));
    socket.on('error', (error) => finish('code' in error ? String(error.code) : error.message));
  });
}
