/** What the machine reports about a running installation: its processes, their environments, their sockets. Linux. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

function statOf(pid: number): { name: string; parent: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const end = stat.lastIndexOf(')');
    return { name: stat.slice(stat.indexOf('(') + 1, end), parent: Number(stat.slice(end + 2).split(' ')[1]) };
  } catch {
    return null;
  }
}

/** Every process below this one, including indirect children. */
export function descendantsOf(root: number): number[] {
  const pids = readdirSync('/proc').map(Number).filter(Boolean);
  const parents = new Map(pids.map((pid) => [pid, statOf(pid)?.parent ?? 0]));
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid) ?? 0;
    return parent === root || (parent > 1 && isBelow(parent));
  };
  return pids.filter(isBelow);
}

/** What `read` returns for each descendant of `root`; a process that ends meanwhile, such as a Postgres backend, is left out. */
export function ofDescendants<T>(root: number, read: (pid: number) => T): T[] {
  return descendantsOf(root).flatMap((pid) => {
    try {
      return [read(pid)];
    } catch (error) {
      const hasEnded = error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH');
      if (hasEnded) return [];
      throw error;
    }
  });
}

/** The arguments that a process was started with. */
export function argumentsOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
}

/** The environment that a process was started with. */
export function environmentOf(pid: number): Map<string, string> {
  const entries = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .filter((entry) => entry !== '');
  return new Map(entries.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]));
}

export interface Listener {
  readonly pid: number;
  /** `127.0.0.1`, as hexadecimal text for IPv6, or the path of a Unix socket. */
  readonly address: string;
  readonly port: number;
}

function inodesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

function addressOf(hex: string): string {
  if (hex.length !== 8) return hex;
  return [6, 4, 2, 0].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join('.');
}

const tcpListens = '0A';

/** Every socket on which these processes accept data: TCP, UDP and Unix. */
export function listenersOf(pids: readonly number[]): Listener[] {
  const owners = new Map(pids.flatMap((pid) => inodesOf(pid).map((inode) => [inode, pid] as const)));
  const lines = (file: string) => readFileSync(`/proc/net/${file}`, 'utf8').trim().split('\n').slice(1);
  const found: Listener[] = [];
  for (const file of ['tcp', 'tcp6', 'udp', 'udp6']) {
    for (const line of lines(file)) {
      const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
      const pid = owners.get(inode);
      if (pid === undefined || (file.startsWith('tcp') && state !== tcpListens)) continue;
      const [hex = '', port = ''] = local.split(':');
      found.push({ pid, address: addressOf(hex), port: Number.parseInt(port, 16) });
    }
  }
  for (const line of lines('unix')) {
    const [, , , flags, , , inode = '', path = ''] = line.trim().split(/\s+/);
    const pid = owners.get(inode);
    if (pid !== undefined && flags === '00010000') found.push({ pid, address: path, port: 0 });
  }
  return found;
}
