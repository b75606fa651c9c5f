/**
 * An empty Debian with systemd, as a container of systemd-nspawn: an overlay over a tree of debootstrap, in a network
 * namespace of its own that reaches the outside through this machine. Needs root on Linux.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemEnvironment } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';
import { authorities, connectedNamespace, emptyDebian, run } from './outside.ts';
import { openShell, type Shell } from './shell.ts';

const network = '10.231.78';
const bootMsMax = 60_000;

export const neededPrograms = ['debootstrap', 'systemd-nspawn', 'ip', 'iptables', 'nsenter', 'mount'];

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
      connectedNamespace(machine.#name, network, machine.#cleanUp);
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
    // Thousands of files of packages: rm needs a fraction of the time of rmSync.
    this.#cleanUp.push(() => run('rm', '-rf', this.#folder));
    run('mount', '-t', 'overlay', 'overlay', '-o', `lowerdir=${emptyDebian()},upperdir=${upper},workdir=${work}`, root);
    this.#cleanUp.push(() => run('umount', '-l', root));
    copyFileSync('/etc/resolv.conf', join(root, 'etc/resolv.conf'));
    copyFileSync(authorities, join(root, 'usr/local/share/ca-certificates/of-this-machine.crt'));
    writeFileSync(join(root, 'etc/hosts'), '127.0.0.1 localhost api.example.com\n');
    mkdirSync(join(root, 'mnt/sources'));
    run('mount', '--bind', sources, join(root, 'mnt/sources'));
    this.#cleanUp.push(() => run('umount', '-l', join(root, 'mnt/sources')));
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

  /** A login as root. */
  shell(): Shell {
    const environment = { HOME: '/root', LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' };
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    const given = Object.entries({ ...environment, NODE_EXTRA_CA_CERTS: authorities }).map((pair) => pair.join('='));
    const within = ['nsenter', '-t', String(this.#leader()), '-a'];
    const words = [...within, 'env', '-i', path, ...given, 'bash', '-e'];
    return openShell(words, this.#print);
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
