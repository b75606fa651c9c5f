import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { searchPath } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { type NodeProgram, nodeProgram } from './node-program.ts';
import { answers, type Endpoint } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';
import { storedPassword } from './stored-password.ts';

export interface RedisPlace extends ServerPlace {
  /** Called with one line if the stand-in written in JavaScript is used because no real server was found. */
  readonly warn?: (line: string) => void;
  /** Memory limit of the real server, in bytes; at the limit it refuses writes. */
  readonly bytesMax?: number;
}

/**
 * `operator` has all permissions, for a person with `redis-cli`; `signpost` has all except administration; `redirector`
 * can read and cache links and subscribe to their changes.
 */
export type RedisRole = 'operator' | 'signpost' | 'redirector';

export interface RedisServer extends LocalServer {
  /** The server's URL for each of its users; `url` is that of `operator`. The stand-in has one user for all. */
  urlOf(role: RedisRole): string;
}

/** Rules of Redis' ACL (redis.io, "ACL"), without the passwords. */
export const redisRules: Readonly<Record<RedisRole, string>> = {
  operator: '~* &* +@all',
  signpost: '~* &* +@all -@admin -@dangerous +info',
  redirector:
    // The commands of its client and of the link cache.
    '~link:* ~host:* ~signals:* &links:* -@all +ping +auth +hello +quit +time +client|setname +info +get +mget +set +publish +subscribe +unsubscribe',
};

const roles = ['operator', 'signpost', 'redirector'] as const;
const bytesMaxDefault = 1_073_741_824;

function configuration(at: Endpoint, place: RedisPlace, passwords: Readonly<Record<RedisRole, string>>): string {
  return [
    ...('port' in at ? [`bind ${at.host}`, `port ${at.port}`] : ['port 0', `unixsocket ${JSON.stringify(at.path)}`]),
    `dir ${JSON.stringify(place.dataDir)}`,
    'save ""',
    'appendonly no',
    'daemonize no',
    `maxmemory ${place.bytesMax ?? bytesMaxDefault}`,
    // At the memory limit, the least recently used clicks are evicted, instead of rejecting limits and logins.
    'maxmemory-policy volatile-lru',
    'maxmemory-samples 10',
    'user default off',
    ...roles.map((role) => `user ${role} on >${passwords[role]} ${redisRules[role]}`),
    '',
  ].join('\n');
}

/**
 * The real server's program, or whether to use the stand-in from js-redis-server (same protocol, Lua, no persistence).
 */
export type RedisProgram = { readonly isStandIn: false; readonly command: string } | { readonly isStandIn: true };

/** valkey-server or redis-server on the PATH, otherwise the stand-in. @throws StartupError if there is neither. */
export function findRedis(): RedisProgram {
  const command = findProgram(['valkey-server', 'redis-server'], ['/usr/sbin', '/usr/local/sbin']);
  if (command !== undefined) return { isStandIn: false, command };
  if (findInPackage('js-redis-server') !== undefined) return { isStandIn: true };
  throw new StartupError(
    "No Redis was found: run 'apt install redis-server' (or 'brew install valkey'), 'npm ci' with development packages, " +
      'or set REDIS_URL to your own server.',
  );
}

function standIn(at: Endpoint, passwordFile: string): NodeProgram {
  const built = join(packageRoot(), 'dist', 'deploy', 'local', 'redis-stand-in.js');
  const entry = existsSync(built) ? built : fileURLToPath(new URL('./redis-stand-in.ts', import.meta.url));
  const { args, env } = nodeProgram(entry);
  return { args: [...args, passwordFile, 'port' in at ? String(at.port) : at.path], env };
}

/** Redis on this machine without persistence: its content can be rebuilt from the other stores. */
export async function startRedis(place: RedisPlace): Promise<RedisServer> {
  const program = findRedis();
  const fileOf = (role: RedisRole) => join(place.dataDir, `password-${role}`);
  const passwords = {
    operator: storedPassword(fileOf('operator')),
    signpost: storedPassword(fileOf('signpost')),
    redirector: storedPassword(fileOf('redirector')),
  };
  const userOf = (role: RedisRole) =>
    program.isStandIn ? { user: 'default', password: passwords.operator } : { user: role, password: passwords[role] };
  const urlOf = (role: RedisRole, at: Endpoint) => {
    const { user, password } = userOf(role);
    const address = 'port' in at ? `${at.host}:${at.port}` : `localhost?path=${encodeURIComponent(at.path)}`;
    return `redis://${user}:${password}@${address}`;
  };
  let endpoint: Endpoint = { path: '' };
  if (program.isStandIn) {
    place.warn?.(
      "No valkey-server or redis-server on the PATH: using a stand-in written in JavaScript (for the real one: 'apt install redis-server').",
    );
  }
  const { user, password } = userOf('operator');
  const server = await startServer(place, {
    name: 'redis',
    socketName: 'redis.sock',
    command: (at) => {
      endpoint = at;
      const env = { PATH: searchPath() };
      const file = join(place.dataDir, 'redis.conf');
      rmSync(file, { force: true });
      if (program.isStandIn) {
        const started = standIn(at, fileOf('operator'));
        return { command: process.execPath, args: started.args, env: { ...env, ...started.env }, cwd: '/' };
      }
      writeFileSync(file, configuration(at, place, passwords), { mode: 0o600 });
      return { command: program.command, args: [file], env, cwd: '/' };
    },
    url: (at) => urlOf('operator', at),
    isReady: (at) => answers(at, `AUTH ${user} ${password}\r\nPING\r\n`, '+OK\r\n+PONG'),
    readyTimeoutMs: 15_000,
  });
  return { ...server, urlOf: (role) => urlOf(role, endpoint) };
}
