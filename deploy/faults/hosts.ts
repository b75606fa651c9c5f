/**
 * Hosts on one machine: each is a network namespace with one address, and a bridge in a namespace of its own connects
 * them. The tests' process is a host too: the visitors. Needs root.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { namespacesFolder } from '#deploy/docs-run/outside.ts';
import { lockFolder } from '#deploy/local/folder-lock.ts';
import { findProgram } from '#deploy/local/programs.ts';

/** Part of the range for tests between networks (RFC 2544). The stores have a block of it, so that one rule cuts all. */
const subnet = '198.18.31';
export const network = `${subnet}.0/24`;
const storesBlock = `${subnet}.32/27`;
export const visitorsAddress = `${subnet}.1`;

/** Every namespace, and the visitors' interface, has a name that begins so: a run removes what an earlier one left. */
const prefix = 'spm-';
const bridge = `${prefix}bridge`;
const folder = '/tmp/signpost-machines';
const lockWaitMs = 600_000;
const programs = ['ip', 'iptables', 'setpriv', 'unshare', 'redis-server', 'faketime'];

/** Why no hosts can be made here; null if they can. */
export function whyNoHosts(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'network namespaces need root on Linux';
  const missing = programs.filter((name) => findProgram([name], ['/usr/sbin', '/sbin']) === undefined);
  if (missing.length > 0) return `${missing.join(', ')} is not installed`;
  const probe = `${prefix}probe-${process.pid}`;
  try {
    ip('netns', 'add', probe);
    inside(probe, 'iptables', '-S');
    ip('netns', 'delete', probe);
    return null;
  } catch (error) {
    return `this machine makes no network namespaces (${error instanceof Error ? error.message : error})`;
  }
}

function run(command: string, args: readonly string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

function ip(...args: string[]): string {
  return run('ip', args);
}

function inside(namespace: string, ...command: string[]): string {
  return ip('netns', 'exec', namespace, ...command);
}

function namespaces(): string[] {
  return existsSync(namespacesFolder) ? readdirSync(namespacesFolder).filter((name) => name.startsWith(prefix)) : [];
}

/** Ends the processes in the namespaces of this test, and removes these. */
function removeLeftovers(): void {
  for (const name of namespaces()) {
    for (const pid of ip('netns', 'pids', name).split('\n').map(Number).filter(Boolean)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended since.
      }
    }
    ip('netns', 'delete', name);
  }
  if (ip('-o', 'link').includes(` ${prefix}visitors@`)) ip('link', 'delete', `${prefix}visitors`);
  // What was killed may write for a moment.
  rmSync(join(folder, 'run'), { recursive: true, force: true, maxRetries: 10 });
}

/** One machine of the installation. */
export class Host {
  readonly name: string;
  readonly address: string;
  readonly #namespace: string;

  constructor(name: string, number: number) {
    this.name = name;
    this.address = `${subnet}.${number}`;
    this.#namespace = `${prefix}${name}`;
    ip('netns', 'add', this.#namespace);
    ip('link', 'add', name, 'netns', bridge, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.#namespace);
    inside(bridge, 'ip', 'link', 'set', name, 'master', 'br0', 'up');
    inside(this.#namespace, 'ip', 'address', 'add', `${this.address}/24`, 'dev', 'eth0');
    for (const device of ['lo', 'eth0']) inside(this.#namespace, 'ip', 'link', 'set', device, 'up');
  }

  /**
   * The words before a command that runs it on this host. Shared memory of its own, because programs that are killed
   * leave theirs.
   */
  get within(): readonly string[] {
    const ownMemory = 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"';
    return ['ip', 'netns', 'exec', this.#namespace, 'unshare', '--ipc', 'sh', '-c', ownMemory];
  }

  /** Drops every packet between this host and the stores; visitors still reach it. */
  cutFromStores(): void {
    inside(this.#namespace, 'iptables', '-A', 'OUTPUT', '-d', storesBlock, '-j', 'DROP');
    inside(this.#namespace, 'iptables', '-A', 'INPUT', '-s', storesBlock, '-j', 'DROP');
  }

  /** Reverts the cut. */
  heal(): void {
    inside(this.#namespace, 'iptables', '-F');
  }

  unplug(): void {
    inside(bridge, 'ip', 'link', 'set', this.name, 'down');
  }

  plugIn(): void {
    inside(bridge, 'ip', 'link', 'set', this.name, 'up');
  }
}

export class Hosts {
  readonly folder = join(folder, 'run');
  readonly #release: () => void;

  private constructor(release: () => void) {
    this.#release = release;
  }

  /** Waits for another run on this machine to end. */
  static async open(): Promise<Hosts> {
    const lock = await lockFolder(folder, lockWaitMs);
    removeLeftovers();
    const hosts = new Hosts(() => lock.release());
    // Postgres runs as its own user, below this folder.
    for (const path of [folder, hosts.folder]) {
      mkdirSync(path, { recursive: true });
      chmodSync(path, 0o711);
    }
    ip('netns', 'add', bridge);
    inside(bridge, 'ip', 'link', 'add', 'br0', 'type', 'bridge');
    inside(bridge, 'ip', 'link', 'set', 'br0', 'up');
    const visitors = `${prefix}visitors`;
    ip('link', 'add', visitors, 'type', 'veth', 'peer', 'name', 'visitors', 'netns', bridge);
    inside(bridge, 'ip', 'link', 'set', 'visitors', 'master', 'br0', 'up');
    ip('address', 'add', `${visitorsAddress}/24`, 'dev', visitors);
    ip('link', 'set', visitors, 'up');
    return hosts;
  }

  /** @param number the last part of its address; 33 to 62 are stores. */
  add(name: string, number: number): Host {
    return new Host(name, number);
  }

  close(): void {
    removeLeftovers();
    this.#release();
  }
}
