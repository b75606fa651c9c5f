import { dirname, join } from 'node:path';
import { searchPath } from '#common/config.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { answers } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';

export interface RedisPlace extends ServerPlace {
  /** Told in one line when the stand-in written in JavaScript runs, because no real server was found. */
  readonly warn?: (line: string) => void;
  /** Memory of the real server, in bytes; at the limit it refuses writes. */
  readonly bytesMax?: number;
}

interface RedisProgram {
  readonly command: string;
  readonly args: (port: number, place: RedisPlace) => string[];
  readonly isStandIn: boolean;
}

/** valkey-server or redis-server on the PATH, else the stand-in from js-redis-server (same protocol, Lua, no persistence). */
export function findRedis(): RedisProgram {
  const real = findProgram(['valkey-server', 'redis-server'], ['/usr/sbin', '/usr/local/sbin']);
  if (real !== undefined) {
    return {
      command: real,
      isStandIn: false,
      args: (port, place) => [
        ...['--bind', '127.0.0.1', '--port', String(port), '--dir', place.dataDir, '--save', '', '--appendonly', 'no'],
        ...[
          '--maxmemory',
          String(place.bytesMax ?? 1_073_741_824),
          // At the limit the click that nobody asked for longest goes, instead of limits and logins being refused.
          '--maxmemory-policy',
          'volatile-lru',
          '--maxmemory-samples',
          '10',
          '--daemonize',
          'no',
        ],
      ],
    };
  }
  const entry = findInPackage('js-redis-server');
  if (entry !== undefined) {
    const cli = join(dirname(entry), 'cli.js');
    return { command: process.execPath, isStandIn: true, args: (port) => [cli, '--port', String(port)] };
  }
  throw new StartupError(
    "No Redis was found: run 'apt install redis-server' (or 'brew install valkey'), 'npm ci' with development packages, " +
      'or set REDIS_URL to a server of yours.',
  );
}

/** Redis on loopback that keeps nothing on disk: what it holds can be made again from the other stores. */
export async function startRedis(place: RedisPlace): Promise<LocalServer> {
  const program = findRedis();
  if (program.isStandIn) {
    place.warn?.(
      "No valkey-server or redis-server on the PATH: a stand-in written in JavaScript is used ('apt install redis-server' for the real one).",
    );
  }
  return startServer(place, {
    name: 'redis',
    command: (port) => ({
      command: program.command,
      args: program.args(port, place),
      env: { PATH: searchPath() },
      cwd: '/',
      // Asked to end, the stand-in waits for its clients to go; it has nothing to save.
      ...(program.isStandIn ? { stopSignal: 'SIGKILL' as const } : {}),
    }),
    url: (port) => `redis://127.0.0.1:${port}`,
    isReady: (port) => answers(port, 'PING\r\n', '+PONG'),
    readyTimeoutMs: 15_000,
  });
}
