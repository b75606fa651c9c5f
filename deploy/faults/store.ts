/** One of the four stores, behind a proxy through which Signpost connects. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtClickHouse, startClickHouse } from '#deploy/local/clickhouse/spawn.ts';
import type { LocalServer } from '#deploy/local/local-server.ts';
import { startNats } from '#deploy/local/nats.ts';
import { startPostgres } from '#deploy/local/postgres.ts';
import { startRedis } from '#deploy/local/redis.ts';
import { TcpProxy } from './tcp-proxy.ts';

export const storeNames = ['postgres', 'nats', 'redis', 'clickhouse'] as const;
export type StoreName = (typeof storeNames)[number];

function startServer(name: StoreName, dataDir: string, port: number): Promise<LocalServer> {
  switch (name) {
    case 'postgres':
      return startPostgres({ dataDir, port });
    case 'nats':
      return startNats({ dataDir, port });
    case 'redis':
      return startRedis({ dataDir, port });
    case 'clickhouse':
      return startClickHouse({ dataDir, port, entry: builtClickHouse() });
  }
}

export class Store {
  readonly name: StoreName;
  readonly dataDir: string;
  readonly proxy: TcpProxy;
  readonly #isMounted: boolean;
  #server: LocalServer;
  #isFrozen = false;

  private constructor(name: StoreName, dataDir: string, server: LocalServer, proxy: TcpProxy, isMounted: boolean) {
    this.name = name;
    this.dataDir = dataDir;
    this.#server = server;
    this.proxy = proxy;
    this.#isMounted = isMounted;
  }

  /** @param diskMegabytes size of its own disk (tmpfs; needs root); absent: a folder under /tmp. */
  static async start(name: StoreName, diskMegabytes?: number): Promise<Store> {
    const dataDir = mkdtempSync(join(tmpdir(), `signpost-faults-${name}-`));
    if (diskMegabytes !== undefined) mountDisk(dataDir, diskMegabytes);
    const server = await startServer(name, dataDir, 0);
    return new Store(name, dataDir, server, await TcpProxy.start(server.port), diskMegabytes !== undefined);
  }

  /** The URL for Signpost, through the proxy. */
  get url(): string {
    return this.proxy.through(this.#server.url);
  }

  /** The URL that bypasses the proxy. */
  get directUrl(): string {
    return this.#server.url;
  }

  get pid(): number {
    return this.#server.pid;
  }

  /** Sends SIGKILL and waits for the exit. A store that runs in several processes ends with its first. */
  async kill(): Promise<void> {
    this.#server.kill('SIGKILL');
    await this.#server.stop();
  }

  /**
   * Shuts down Postgres immediately, so that its processes end without writing anything back; kills any other store.
   */
  async crash(): Promise<void> {
    if (this.name !== 'postgres') return this.kill();
    this.#server.kill('SIGQUIT');
    await this.#server.exited;
    await this.#server.stop();
  }

  /** Starts it again if it has exited, as a supervisor would. @returns whether it had. */
  async revive(): Promise<boolean> {
    if (!this.#server.hasExited()) return false;
    await this.#server.stop();
    await this.start();
    return true;
  }

  async start(): Promise<void> {
    this.#server = await startServer(this.name, this.dataDir, this.#server.port);
  }

  /** Removes its data but not its configuration. It must have ended. */
  wipe(): void {
    for (const entry of readdirSync(this.dataDir)) {
      if (entry === 'store') rmSync(join(this.dataDir, entry), { recursive: true, force: true });
    }
    mkdirSync(join(this.dataDir, 'store'), { recursive: true });
  }

  /** Sends SIGSTOP, for Postgres to all of its processes. */
  freeze(): void {
    this.#isFrozen = true;
    this.#signalAll('SIGSTOP');
  }

  thaw(): void {
    this.#isFrozen = false;
    this.#signalAll('SIGCONT');
  }

  async stop(): Promise<void> {
    if (this.#isFrozen) this.thaw();
    this.proxy.stop();
    await this.#server.stop();
    if (this.#isMounted) unmountDisk(this.dataDir);
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  #signalAll(signal: NodeJS.Signals): void {
    for (const pid of [this.#server.pid, ...childrenOf(this.#server.pid)]) {
      try {
        process.kill(pid, signal);
      } catch {
        // A session of Postgres may have ended in between.
      }
    }
  }
}

function childrenOf(pid: number): number[] {
  try {
    const found = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
    return found.split('\n').map(Number).filter(Boolean);
  } catch {
    return [];
  }
}

/** Mounts a disk of a few megabytes over the folder. Needs root. */
export function mountDisk(folder: string, megabytes: number): void {
  mkdirSync(folder, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0755`, 'signpost-faults', folder]);
}

export function unmountDisk(folder: string): void {
  execFileSync('umount', ['-l', folder]);
}
