/** What a machine or a container engine of a test consists of: an empty Debian, and a network of its own. Needs root on Linux. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemEnvironment } from '#common/process/config.ts';
import { findProgram } from '#deploy/local/programs.ts';

/** One file for each named network namespace. `ip netns list` fails now and then while another program removes one. */
export const namespacesFolder = '/run/netns';
const suite = 'bookworm';
const trees = '/var/cache/signpost-docs-run';
const packages = ['systemd', 'systemd-sysv', 'dbus', 'ca-certificates'];
/** A proxy between here and the registries may have its own authority. */
export const authorities = '/etc/ssl/certs/ca-certificates.crt';

/** Why this machine lacks what a test needs; empty if it does not. */
export function reasonAgainst(programs: readonly string[]): string {
  if (process.platform !== 'linux') return 'it needs Linux';
  if (process.getuid?.() !== 0) return 'it needs root';
  const missing = programs.filter((name) => findProgram([name], ['/usr/sbin', '/sbin']) === undefined);
  return missing.length === 0 ? '' : `it needs ${missing.join(', ')}`;
}

export function run(command: string, ...args: string[]): string {
  // Nothing that is made here survives a power loss, so dpkg need not sync each file.
  const env = { ...systemEnvironment(), DPKG_FORCE: 'unsafe-io' };
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env });
}

/** The folder of an empty Debian, built once with debootstrap. Nothing may be written there. */
export function emptyDebian(): string {
  const tree = join(trees, suite);
  if (existsSync(tree)) return tree;
  mkdirSync(trees, { recursive: true });
  const draft = mkdtempSync(join(trees, 'new-'));
  run('debootstrap', '--variant=minbase', `--include=${packages.join(',')}`, suite, draft);
  writeFileSync(join(draft, 'etc/dpkg/dpkg.cfg.d/docs-run'), 'force-unsafe-io\n');
  const mirror = readFileSync(join(draft, 'etc/apt/sources.list'), 'utf8').split(' ')[1] ?? '';
  const security = `${mirror.replace(/debian\/?$/, '')}debian-security`;
  const sources = [`${mirror} ${suite}`, `${mirror} ${suite}-updates`, `${security} ${suite}-security`];
  writeFileSync(join(draft, 'etc/apt/sources.list'), sources.map((source) => `deb ${source} main\n`).join(''));
  run('mv', '-T', draft, tree);
  return tree;
}

/**
 * Makes a network namespace with one address, which reaches the outside through this machine.
 * @param network the first three bytes of a network that only this test uses; this machine is .1 there, the namespace .2.
 * @param cleanUp gets what removes it again, to be called in reverse.
 */
export function connectedNamespace(name: string, network: string, cleanUp: (() => void)[]): void {
  const [host, own] = [`${network}.1`, `${network}.2`];
  const [outside, inside] = [`${name.slice(0, 2)}${process.pid}a`, `${name.slice(0, 2)}${process.pid}b`];
  const ip = (...args: string[]) => run('ip', ...args);
  ip('netns', 'add', name);
  cleanUp.push(() => ip('netns', 'delete', name));
  ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', inside, 'netns', name);
  ip('address', 'add', `${host}/30`, 'dev', outside);
  ip('link', 'set', outside, 'up');
  ip('-n', name, 'address', 'add', `${own}/30`, 'dev', inside);
  for (const link of [inside, 'lo']) ip('-n', name, 'link', 'set', link, 'up');
  ip('-n', name, 'route', 'add', 'default', 'via', host);
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
  for (const [table, ...rule] of rulesFor(own)) {
    run('iptables', '-t', table, '-I', ...rule);
    cleanUp.push(() => run('iptables', '-t', table, '-D', ...rule));
  }
}

/** Let an address reach the outside, also on a machine that forwards nothing else, such as one with Docker. */
function rulesFor(address: string): [table: string, chain: string, ...words: string[]][] {
  return [
    ['nat', 'POSTROUTING', '-s', `${address}/32`, '-j', 'MASQUERADE'],
    ['filter', 'FORWARD', '-s', `${address}/32`, '-j', 'ACCEPT'],
    ['filter', 'FORWARD', '-d', `${address}/32`, '-j', 'ACCEPT'],
  ];
}

/** Ends the processes in a namespace that `connectedNamespace` made, perhaps in a run that was killed, and removes it. */
export function removeConnectedNamespace(name: string, network: string): void {
  if (existsSync(join(namespacesFolder, name))) {
    run('sh', '-c', 'ip netns pids "$0" | xargs --no-run-if-empty kill -s KILL', name);
    run('ip', 'netns', 'delete', name);
  }
  for (const [table, chain, ...words] of rulesFor(`${network}.2`)) {
    const isIt = (line: string) => line === ['-A', chain, ...words].join(' ');
    const found = run('iptables', '-t', table, '-S', chain).split('\n').filter(isIt);
    for (const _ of found) run('iptables', '-t', table, '-D', chain, ...words);
  }
}
