/** Starts ClickHouse for one machine as a process, for the launcher and for tests. */
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { searchPath } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { StartupError } from '#deploy/local/child.ts';
import { type LocalServer, type ServerPlace, startServer } from '#deploy/local/local-server.ts';
import { nodeProgram } from '#deploy/local/node-program.ts';
import { answers, type Endpoint } from '#deploy/local/ports.ts';
import { findInPackage } from '#deploy/local/programs.ts';
import { type ClickHouseRole, clickhousePasswords } from './users.ts';

/** More than the concurrent queries and inserts, so that a gzip or a KILL never waits for one of them. */
const threadPoolSize = 24;

export interface ClickHousePlace extends ServerPlace {
  /** The server's entry file. `.ts` runs under tsx (development, tests), anything else under plain node. */
  readonly entry?: string;
}

/** The server's entry file in dist/, from which it starts in half the time. dist/ must be built. */
export function builtClickHouse(): string {
  return join(packageRoot(), 'dist', 'deploy', 'local', 'clickhouse', 'main.js');
}

/** The folder of the engine's library for this platform. */
export function findChdb(): string {
  const wrapper = findInPackage('chdb');
  const library = `@chdb/lib-${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}/package.json`;
  const found = wrapper === undefined ? undefined : findInPackage(library, pathToFileURL(wrapper).href);
  if (found !== undefined) return dirname(found);
  throw new StartupError(
    `No ClickHouse engine for ${process.platform} ${process.arch} was found: run 'npm ci' with development packages, ` +
      'or set CLICKHOUSE_URL to your own server.',
  );
}

export interface ClickHouseServerProcess extends LocalServer {
  /** The server's URL for each of its users; `url` is that of `signpost`. */
  urlOf(role: ClickHouseRole): string;
}

/** Resolves when the server answers /ping. @throws StartupError with the end of the server's log. */
export async function startClickHouse(place: ClickHousePlace): Promise<ClickHouseServerProcess> {
  const passwords = clickhousePasswords(place.dataDir);
  const urlOf = (role: ClickHouseRole, at: Endpoint) => {
    const address = 'port' in at ? `${at.host}:${at.port}` : `localhost/?socket=${encodeURIComponent(at.path)}`;
    return `http://${role}:${passwords[role]}@${address}`;
  };
  let endpoint: Endpoint = { path: '' };
  const basic = Buffer.from(`signpost:${passwords.signpost}`).toString('base64');
  const ping = `GET /ping HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic ${basic}\r\n\r\n`;
  const entry = place.entry ?? fileURLToPath(new URL('./main.ts', import.meta.url));
  const program = nodeProgram(entry);
  const server = await startServer(place, {
    name: 'clickhouse',
    socketName: 'http.sock',
    command: (at) => {
      endpoint = at;
      return {
        command: process.execPath,
        args: [...program.args, join(place.dataDir, 'store'), 'port' in at ? String(at.port) : at.path],
        env: { ...program.env, PATH: searchPath(), TZ: 'UTC', UV_THREADPOOL_SIZE: String(threadPoolSize) },
      };
    },
    url: (at) => urlOf('signpost', at),
    isReady: (at) => answers(at, ping, 'HTTP/1.1 200'),
    readyTimeoutMs: 30_000,
  });
  return { ...server, urlOf: (role) => urlOf(role, endpoint) };
}
