/**
 * An empty Debian with systemd, as a container of systemd-nspawn: an overlay over a tree of debootstrap, in a network
 * namespace of its own that reaches the outside through this machine. Needs root on Linux.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemEnvironment } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';
import { findProgram } from '#deploy/local/programs.ts';

const suite = 'bookworm';
const trees = '/var/cache/signpost-docs-run';
const packages = ['systemd', 'systemd-sysv', 'dbus', 'ca-certificates'];
/** The owner of the tree's authorities: a proxy between here and the registries may have its own. */
const authorities = '/etc/ssl/certs/ca-certificates.crt';
const network = { host: '10.231.78.1', machine: '10.231.78.2', prefix: 30 };
const bootMsMax = 60_000;

const programs = ['debootstrap', 'systemd-nspawn', 'ip', 'iptables', 'nsenter', 'mount'];

/** Why no such machine can be started here; empty if one can. */
export function reasonAgainst(): string {
  if (process.platform !== 'linux') return 'it needs Linux';
  if (process.getuid?.() !== 0) return 'it needs root';
  const missing = programs.filter((name) => findProgram([name], ['/usr/sbin', '/sbin']) === undefined);
  return missing.length === 0 ? '' : `it needs ${missing.join(', ')}`;
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: systemEnvironment() });
}

/** Builds the tree once; later runs start from it. */
function emptyTree(): string {
  const tree = join(trees, suite);
  if (existsSync(tree)) return tree;
  mkdirSync(trees, { recursive: true });
  const draft = mkdtempSync(join(trees, 'new-'));
  run('debootstrap', '--variant=minbase', `--include=${packages.join(',')}`, suite, draft);
  // Nothing here survives a power loss, so dpkg need not sync each file.
  writeFileSync(join(draft, 'etc/dpkg/dpkg.cfg.d/docs-run'), 'force-unsafe-io\n');
  const mirror = readFileSync(join(draft, 'etc/apt/sources.list'), 'utf8').split(' ')[1] ?? '';
  const security = `${mirror.replace(/debian\/?$/, '')}debian-security`;
  const sources = [`${mirror} ${suite}`, `${mirror} ${suite}-updates`, `${security} ${suite}-security`];
  writeFileSync(join(draft, 'etc/apt/sources.list'), sources.map((source) => `deb ${source} main\n`).join(''));
  run('mv', '-T', draft, tree);
  return tree;
}

export interface Shell {
  /** Runs commands in the shell, and prints what they print. @throws at the first command that fails. */
  run(commands: string): Promise<string>;
}

export class DebianMachine {
  readonly root: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'signpost-docs-run-'));
  readonly #name = `docs-run-${process.pid}`;
  readonly #cleanUp: (() => void)[] = [];
  readonly #print: (text: string) => void;
  #nspawn: ChildProcess | undefined;

  private constructor(print: (text: string) => void) {
    this.#print = print;
    this.root = join(this.#folder, 'root');
  }

  /** @param sources a Git repository that the machine finds at /mnt/sources. */
  static async boot(sources: string, print: (text: string) => void): Promise<DebianMachine> {
    const machine = new DebianMachine(print);
    try {
      machine.#mount(sources);
      machine.#connect();
      await machine.#boot();
      return machine;
    } catch (error) {
      await machine.stop();
      throw error;
    }
  }

  #mount(sources: string): void {
    const { root } = this;
    const [upper, work] = ['upper', 'work'].map((name) => join(this.#folder, name));
    for (const folder of [root, upper, work]) mkdirSync(String(folder));
    this.#cleanUp.push(() => rmSync(this.#folder, { recursive: true, force: true }));
    run('mount', '-t', 'overlay', 'overlay', '-o', `lowerdir=${emptyTree()},upperdir=${upper},workdir=${work}`, root);
    this.#cleanUp.push(() => run('umount', '-l', root));
    copyFileSync('/etc/resolv.conf', join(root, 'etc/resolv.conf'));
    copyFileSync(authorities, join(root, 'usr/local/share/ca-certificates/of-this-machine.crt'));
    writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost api.example.com\n');
    mkdirSync(join(root, 'mnt/sources'));
    run('mount', '--bind', sources, join(root, 'mnt/sources'));
    this.#cleanUp.push(() => run('umount', '-l', join(root, 'mnt/sources')));
  }

  #connect(): void {
    const name = this.#name;
    const [outside, inside] = [`sd${process.pid}a`, `sd${process.pid}b`];
    const ip = (...args: string[]) => run('ip', ...args);
    ip('netns', 'add', name);
    this.#cleanUp.push(() => ip('netns', 'delete', name));
    ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', inside, 'netns', name);
    ip('address', 'add', `${network.host}/${network.prefix}`, 'dev', outside);
    ip('link', 'set', outside, 'up');
    ip('-n', name, 'address', 'add', `${network.machine}/${network.prefix}`, 'dev', inside);
    for (const link of [inside, 'lo']) ip('-n', name, 'link', 'set', link, 'up');
    ip('-n', name, 'route', 'add', 'default', 'via', network.host);
    writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
    const rule = ['POSTROUTING', '-s', network.machine, '-j', 'MASQUERADE'];
    run('iptables', '-t', 'nat', '-A', ...rule);
    this.#cleanUp.push(() => run('iptables', '-t', 'nat', '-D', ...rule));
  }

  async #boot(): Promise<void> {
    // In control groups of its own: its systemd takes the groups in which it starts for the whole machine's.
    const join_ =
      'for h in systemd unified; do d=/sys/fs/cgroup/$h; [ -d $d ] || continue; mkdir -p $d/$0; echo $$ >$d/$0/cgroup.procs; done';
    const flags = ['--boot', '--register=no', '--keep-unit', '--quiet', '--resolv-conf=off', '--console=read-only'];
    const place = ['-D', this.root, `--machine=${this.#name}`, `--network-namespace-path=/run/netns/${this.#name}`];
    const command = `${join_}; exec systemd-nspawn "$@"`;
    this.#nspawn = spawn('sh', ['-c', command, this.#name, ...flags, ...place], {
      stdio: 'ignore',
      detached: true,
      env: { ...systemEnvironment(), SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: '1' },
    });
    const deadline = Date.now() + bootMsMax;
    for (;;) {
      try {
        // "degraded" is a booted machine too.
        if (
          /running|degraded/.test(
            run('sh', '-c', `nsenter -t ${this.#leader()} -a systemctl is-system-running || true`),
          )
        )
          return;
      } catch (error) {
        if (Date.now() > deadline) throw new Error(`systemd did not boot: ${error}`);
      }
      await sleep(systemTime, 250);
    }
  }

  #leader(): number {
    const { pid } = this.#nspawn ?? {};
    return Number(run('pgrep', '-P', String(pid)).trim().split('\n')[0]);
  }

  /** A login as root, which keeps its folder and its variables from one block to the next. */
  shell(): Shell & { end(): void } {
    const environment = { HOME: '/root', LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' };
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    const given = Object.entries({ ...environment, NODE_EXTRA_CA_CERTS: authorities }).map((pair) => pair.join('='));
    const args = ['-t', String(this.#leader()), '-a', 'env', '-i', path, ...given, 'bash', '-e'];
    const bash = spawn('nsenter', args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let printed = '';
    const listeners = new Set<() => void>();
    for (const stream of [bash.stdout, bash.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        this.#print(text);
        for (const listen of listeners) listen();
      });
    }
    bash.on('exit', () => {
      for (const listen of listeners) listen();
    });
    bash.stdin.write('cd /root\n');
    let blocks = 0;
    return {
      run: (commands) => {
        const mark = `docs-run-block-${++blocks}-of-${process.pid}`;
        printed = '';
        bash.stdin.write(`${commands}\necho ${mark.replace('run', "r'u'n")}\n`);
        return new Promise((done, fail) => {
          const listen = () => {
            const isDone = printed.includes(mark);
            if (!isDone && bash.exitCode === null) return;
            listeners.delete(listen);
            if (isDone) done(printed.replace(`${mark}\n`, ''));
            else fail(new Error(`a command failed with ${bash.exitCode}:\n${commands}`));
          };
          listeners.add(listen);
        });
      },
      end: () => bash.stdin.end(),
    };
  }

  async stop(): Promise<void> {
    if (this.#nspawn?.pid !== undefined) {
      const { pid } = this.#nspawn;
      const ended = new Promise((done) => this.#nspawn?.once('exit', done));
      try {
        // The first process of its namespace: everything in it ends.
        process.kill(this.#leader(), 'SIGKILL');
        await ended;
      } catch {
        process.kill(pid, 'SIGKILL');
      }
    }
    for (const cleanUp of this.#cleanUp.reverse()) {
      try {
        cleanUp();
      } catch (error) {
        this.#print(`not cleaned up: ${error}\n`);
      }
    }
  }
}
