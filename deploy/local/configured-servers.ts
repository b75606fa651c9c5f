/** Checks whether the servers in the configured URLs accept connections. */
import { connect } from 'node:net';
import type { Config } from '#common/process/settings.ts';
import { urlsIn } from '#common/process/url-list.ts';

const answerMsMax = 3_000;

const given = {
  DATABASE_URL: { server: 'Postgres', port: 5432 },
  REDIS_URL: { server: 'Redis', port: 6379 },
  NATS_URL: { server: 'NATS', port: 4222 },
  // The client library uses the scheme's own port.
  CLICKHOUSE_URL: { server: 'ClickHouse', port: 80 },
} as const;

export type ServerSetting = keyof typeof given;

/** One sentence by the name of the setting, for each configured server that accepts no connection within 3 s. */
export async function unreachableServers(config: Pick<Config, ServerSetting>): Promise<Map<ServerSetting, string>> {
  const names = ['DATABASE_URL', 'REDIS_URL', 'NATS_URL', 'CLICKHOUSE_URL'] as const;
  const faults = await Promise.all(names.map((name) => serverFault(name, config[name])));
  const away = new Map<ServerSetting, string>();
  for (const [at, name] of names.entries()) {
    const fault = faults[at];
    if (fault) away.set(name, fault);
  }
  return away;
}

async function serverFault(name: ServerSetting, text: string): Promise<string | null> {
  // One of several servers is enough, because the processes' clients also look for a working one.
  const faults = await Promise.all(urlsIn(text).map((url) => urlFault(name, url)));
  return faults.includes(null) ? null : (faults[0] ?? null);
}

async function urlFault(name: ServerSetting, text: string): Promise<string | null> {
  const url = new URL(text);
  // A URL without a host is a Unix socket.
  if (url.hostname === '') return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : given[name].port);
  const fault = await connectFault(host, port);
  if (fault === null) return null;
  return `${name}: ${given[name].server} cannot be reached at ${url.hostname}:${port} (${fault}). Check the URL, or unset ${name} to let npm start run a local server`;
}

function connectFault(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    // Covers DNS resolution too, which the socket timeout does not.
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
