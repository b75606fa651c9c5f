/** The stores of an installation on many machines, each server on its own host, set up as docs/operating.md says. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { searchPath } from '#common/process/config.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { type Child, type ChildCommand, startChild, waitUntilReady } from '#deploy/local/child.ts';
import { builtClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import { clickhousePasswords } from '#deploy/local/clickhouse/users.ts';
import { findNats, natsPayloadBytesMax } from '#deploy/local/nats.ts';
import { findPostgres, startPostgres } from '#deploy/local/postgres.ts';
import { storedPassword } from '#deploy/local/stored-password.ts';
import {
  documentedDatabaseStatements,
  documentedDatabaseUsers,
  documentedNatsUsers,
  documentedRedisUsers,
} from './documented-permissions.ts';
import { type Host, type Hosts, network } from './hosts.ts';
import { StoredRecords } from './stored.ts';

const ports = { postgres: 5432, nats: 4222, natsRoutes: 6222, redis: 6379, clickhouse: 8123 };
const readyTimeoutMs = 60_000;
export const clusterSize = 3;

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 1_000 });
    const finish = (isOpen: boolean) => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.on('connect', () => finish(true));
    socket.on('timeout', () => finish(false));
    socket.on('error', () => finish(false));
  });
}

export class HostedStores {
  readonly #folder: string;
  readonly #postgres: readonly Host[];
  readonly #nats: readonly Host[];
  readonly #redis: Host;
  readonly #clickhouse: Host;
  readonly #running = new Map<string, Child>();
  /** One for all users of the stores: what they may do differs. */
  readonly #password: string;
  readonly #administratorPassword: string;

  private constructor(hosts: Hosts) {
    this.#folder = hosts.folder;
    this.#postgres = ['postgres-1', 'postgres-2'].map((name, at) => hosts.add(name, 33 + at));
    this.#nats = ['nats-1', 'nats-2', 'nats-3'].map((name, at) => hosts.add(name, 35 + at));
    this.#redis = hosts.add('redis', 38);
    this.#clickhouse = hosts.add('clickhouse', 39);
    this.#password = storedPassword(join(hosts.folder, 'password'));
    this.#administratorPassword = storedPassword(join(hosts.folder, 'postgres-1', 'password'));
  }

  static async start(hosts: Hosts): Promise<HostedStores> {
    const stores = new HostedStores(hosts);
    await stores.#makePostgres();
    await Promise.all([
      stores.#startPostgres(0, '*'),
      stores.#startPostgres(1, ''),
      stores.#startRedis(),
      stores.#startClickHouse(),
      ...stores.#nats.map((_, node) => stores.startNats(node)),
    ]);
    return stores;
  }

  /** @param user whose permissions it has; absent: the owner of the schema. */
  databaseUrl(user = 'signpost_owner'): string {
    return this.#postgres
      .map(({ address }) => `postgres://${user}:${this.#password}@${address}:${ports.postgres}/signpost`)
      .join(',');
  }

  natsUrl(user: string): string {
    return this.#nats.map(({ address }) => `nats://${user}:${this.#password}@${address}:${ports.nats}`).join(',');
  }

  redisUrl(user: 'redirector' | 'general'): string {
    return `redis://${user}:${this.#password}@${this.#redis.address}:${ports.redis}`;
  }

  clickhouseUrl(user: 'signpost' | 'reader'): string {
    const password = clickhousePasswords(join(this.#folder, 'clickhouse'))[user];
    return `http://${user}:${password}@${this.#clickhouse.address}:${ports.clickhouse}`;
  }

  /** Runs the page's statements for the users of the processes, as the server's administrator. */
  async createDatabaseUsers(): Promise<readonly string[]> {
    const db = this.#administrator(0, 'signpost');
    try {
      for (const statement of documentedDatabaseStatements(this.#password)) await db.execute(statement);
      return [...documentedDatabaseUsers().values()].map(({ user }) => user);
    } finally {
      await db.close();
    }
  }

  /** The primary dies, and the standby, which has confirmed every transaction, becomes the primary. */
  async failOver(): Promise<void> {
    const primary = this.#running.get('postgres-1');
    primary?.kill('SIGKILL');
    await primary?.exited;
    const db = this.#administrator(1, 'postgres');
    try {
      await db.query('SELECT pg_promote()');
    } finally {
      await db.close();
    }
  }

  async killNats(node: number): Promise<void> {
    const child = this.#running.get(this.#nats[node]?.name ?? '');
    child?.kill('SIGKILL');
    await child?.exited;
  }

  async startNats(node: number): Promise<void> {
    const host = this.#nats[node];
    if (host === undefined) throw new Error(`there is no NATS server ${node}`);
    const file = join(this.#folder, host.name, 'nats.conf');
    const routes = this.#nats.map(({ address }) => `nats://${address}:${ports.natsRoutes}`);
    this.#write(file, [
      `listen: "${host.address}:${ports.nats}"`,
      `server_name: "${host.name}"`,
      `max_payload: ${natsPayloadBytesMax}`,
      `cluster { name: "signpost", listen: "${host.address}:${ports.natsRoutes}", routes: ${JSON.stringify(routes)} }`,
      `jetstream { store_dir: ${JSON.stringify(join(this.#folder, host.name, 'store'))}, max_file_store: 1TB }`,
      ...documentedNatsUsers(this.#password),
    ]);
    await this.#start(host, host.name, ports.nats, { command: findNats(), args: ['-c', file] });
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((child) => child.stop()));
  }

  /** A primary with the owner of the schema and a user for the standby, and a copy of it that follows it. */
  async #makePostgres(): Promise<void> {
    const dataDir = join(this.#folder, 'postgres-1');
    const server = await startPostgres({ dataDir });
    const db = new Postgres({ url: server.url, name: 'test', connectTimeoutMs: patientConnectMs });
    try {
      await db.execute(`CREATE ROLE signpost_owner LOGIN CREATEROLE PASSWORD '${this.#password}'`);
      await db.execute(`CREATE ROLE standby LOGIN REPLICATION PASSWORD '${this.#password}'`);
      await db.execute('CREATE DATABASE signpost OWNER signpost_owner');
    } finally {
      await db.close();
      await server.stop();
    }
    const [first, second] = ['postgres-1', 'postgres-2'].map((name) => join(this.#folder, name, 'cluster'));
    if (first === undefined || second === undefined) return;
    const access = ['signpost', 'postgres'].map((name) => `host ${name} all ${network} scram-sha-256\n`);
    appendFileSync(join(first, 'pg_hba.conf'), `${access.join('')}host replication standby ${network} scram-sha-256\n`);
    mkdirSync(dirname(second));
    execFileSync('cp', ['-a', first, second]);
    // Its content does not matter, but its owner does.
    execFileSync('cp', ['-a', join(first, 'PG_VERSION'), join(second, 'standby.signal')]);
    const from = `host=${this.#postgres[0]?.address} port=${ports.postgres} user=standby password=${this.#password}`;
    appendFileSync(join(second, 'postgresql.auto.conf'), `primary_conninfo = '${from}'\n`);
    for (const cluster of [first, second]) execFileSync('chmod', ['711', dirname(cluster)]);
  }

  /** @param standbys which servers must confirm a transaction before it is answered. */
  async #startPostgres(at: number, standbys: '*' | ''): Promise<void> {
    const host = this.#postgres[at];
    if (host === undefined) return;
    const flags = {
      listen_addresses: host.address,
      unix_socket_directories: '',
      max_connections: '200',
      synchronous_standby_names: standbys,
    };
    // The capability to enter private folders, because the packaged program may be in one.
    const user = ['--reuid=postgres', '--regid=postgres', '--clear-groups', '--securebits=+no_setuid_fixup'];
    const capabilities = ['--inh-caps=-all,+dac_read_search', '--ambient-caps=-all,+dac_read_search'];
    const program = [findPostgres().postgres, '-D', join(this.#folder, host.name, 'cluster')];
    const settings = Object.entries(flags).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const args = [...user, ...capabilities, ...program, ...settings];
    await this.#start(host, host.name, ports.postgres, { command: 'setpriv', args, stopSignal: 'SIGQUIT' });
  }

  async #startRedis(): Promise<void> {
    const file = join(this.#folder, 'redis', 'redis.conf');
    this.#write(file, [
      `bind ${this.#redis.address}`,
      `port ${ports.redis}`,
      'save ""',
      ...['maxmemory 256mb', 'maxmemory-policy volatile-lru', 'user default off'],
      ...documentedRedisUsers(this.#password),
    ]);
    await this.#start(this.#redis, 'redis', ports.redis, { command: 'redis-server', args: [file] });
  }

  /** The engine's server answers only programs on its own host, so a proxy there stands for one that others reach. */
  async #startClickHouse(): Promise<void> {
    const args = [builtClickHouse(), join(this.#folder, 'clickhouse', 'store'), String(ports.clickhouse)];
    mkdirSync(join(this.#folder, 'clickhouse'), { recursive: true });
    clickhousePasswords(join(this.#folder, 'clickhouse'));
    const env = { TZ: 'UTC', UV_THREADPOOL_SIZE: '24' };
    const server = { command: process.execPath, args, env };
    const proxy = fileURLToPath(new URL('./loopback-proxy.mjs', import.meta.url));
    const forward = [proxy, this.#clickhouse.address, String(ports.clickhouse)];
    const proxied = { command: process.execPath, args: forward };
    await this.#start(this.#clickhouse, 'clickhouse-proxy', ports.clickhouse, proxied);
    const stored = new StoredRecords(this.clickhouseUrl('signpost'));
    const isReady = async () => (await stored.ask('SELECT 1').catch(() => '')) === '1';
    await this.#start(this.#clickhouse, 'clickhouse', isReady, server);
  }

  async #start(
    host: Host,
    name: string,
    ready: number | (() => Promise<boolean>),
    { command, args, env = {}, ...rest }: Omit<ChildCommand, 'name' | 'logFile'>,
  ): Promise<void> {
    const logFile = join(this.#folder, 'logs', `${name}.log`);
    const [first = '', ...words] = [...host.within, command, ...args];
    const started = { name, command: first, args: words, logFile, cwd: '/', env: { PATH: searchPath(), ...env } };
    const child = await startChild({ ...started, ...rest });
    this.#running.set(name, child);
    const isReady = typeof ready === 'number' ? () => accepts(host.address, ready) : ready;
    await waitUntilReady(child, logFile, isReady, readyTimeoutMs);
  }

  #administrator(at: number, database: string): Postgres {
    const address = this.#postgres[at]?.address;
    const url = `postgres://signpost:${this.#administratorPassword}@${address}:${ports.postgres}/${database}`;
    return new Postgres({ url, name: 'test', connectionsMax: 1, connectTimeoutMs: patientConnectMs });
  }

  #write(file: string, lines: readonly string[]): void {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  }
}
