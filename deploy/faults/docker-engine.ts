/**
 * A Docker of its own for a test: its data in a folder, its network in a namespace that reaches the outside, and its
 * processes and mounts in namespaces that end with its first process. Needs root.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemEnvironment } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';
import { connectedNamespace, removeConnectedNamespace, run } from '#deploy/docs-run/outside.ts';
import { openShell, type Shell } from '#deploy/docs-run/shell.ts';
import { type Child, startChild, waitUntilReady } from '#deploy/local/child.ts';
import { type FolderLock, lockFolder } from '#deploy/local/folder-lock.ts';

/** Of the namespace and of the control groups. */
const name = 'signpost-containers';
const network = '10.231.79';
const place = `/tmp/${name}`;
const lockWaitMs = 600_000;
const readyMsMax = 60_000;
const removeMsMax = 60_000;
const gibibyte = 1024 ** 3;
const inMemoryBytesMin = 10 * gibibyte;
/**
 * $1 is where images and containers are: in memory if there is enough, because they are many small files. A Docker that
 * this machine runs has its socket in /run/containerd, and dockerd would use it.
 */
const daemonScript = `mkdir -p "$1" /run/containerd
mount -t tmpfs tmpfs /run/containerd
[ "$2" = memory ] && mount -t tmpfs -o size=8g,mode=0711 tmpfs "$1"
data=$1; shift 2
exec dockerd --data-root "$data" "$@"`;

export const neededPrograms = [
  ...['dockerd', 'containerd', 'runc', 'docker', 'docker-compose'],
  ...['debootstrap', 'ip', 'iptables', 'nsenter', 'unshare', 'mount', 'tar'],
];

/** Ends everything in the namespaces, and removes these, the control groups and the folder: also of a run that was killed. */
async function removeAll(folder: string): Promise<void> {
  const deadline = Date.now() + removeMsMax;
  for (;;) {
    try {
      removeConnectedNamespace(name, network);
      run('find', '/sys/fs/cgroup', '-depth', '-type', 'd', '-path', `*/${name}*`, '-delete');
      rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      // What was killed has not ended yet.
      if (Date.now() > deadline) throw error;
      await sleep(systemTime, 100);
    }
  }
}

export class DockerEngine {
  /** At which the published ports of containers answer. */
  readonly address = `${network}.2`;
  readonly folder = join(place, 'run');
  readonly #lock: FolderLock;
  #daemon: Child | undefined;

  private constructor(lock: FolderLock) {
    this.#lock = lock;
  }

  /** Waits for another run on this machine to end. */
  static async start(): Promise<DockerEngine> {
    const engine = new DockerEngine(await lockFolder(place, lockWaitMs));
    try {
      await removeAll(engine.folder);
      mkdirSync(engine.folder);
      connectedNamespace(name, network, []);
      await engine.#start();
      return engine;
    } catch (error) {
      await engine.stop();
      throw error;
    }
  }

  get #environment(): Record<string, string> {
    return {
      ...systemEnvironment(),
      ...{ DOCKER_HOST: `unix://${join(this.folder, 'socket')}`, DOCKER_CONFIG: join(this.folder, 'client') },
      HOME: this.folder,
    };
  }

  async #start(): Promise<void> {
    const at = (of: string) => join(this.folder, of);
    const own = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c', daemonScript];
    const data = [at('data'), freemem() > inMemoryBytesMin ? 'memory' : 'disk'];
    const places = ['--exec-root', at('exec'), '--pidfile', at('pid'), '-H', `unix://${at('socket')}`];
    const groups = ['--exec-opt', 'native.cgroupdriver=cgroupfs', '--cgroup-parent', `/${name}`];
    // Only the network, because `ip netns exec` would hide the control groups too.
    const args = [`--net=/run/netns/${name}`, ...own, 'sh', ...data, ...places, ...groups];
    const logFile = at('log');
    const env = systemEnvironment();
    const command = { name: 'dockerd', command: 'nsenter', args, logFile, env, stopSignal: 'SIGKILL' as const };
    this.#daemon = await startChild(command);
    const answers = () => this.docker('version').then(Boolean, () => false);
    await waitUntilReady(this.#daemon, logFile, answers, readyMsMax);
  }

  /** @returns what `docker …` prints. */
  async docker(...args: string[]): Promise<string> {
    const options = { env: this.#environment, maxBuffer: 64 * 1024 * 1024 };
    return (await promisify(execFile)('docker', args, options)).stdout.trim();
  }

  /**
   * A shell in the network of the containers that sees their processes, and whose `docker` and `docker-compose` use this
   * engine.
   */
  shell(cwd: string, print: (text: string) => void): Shell {
    const { pid } = this.#daemon ?? {};
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
    const within = ['nsenter', `--target=${first}`, '--net', '--pid', '--mount'];
    const words = [...within, 'sh', '-c', 'cd "$0" && exec bash -e', cwd];
    return openShell(words, print, { env: this.#environment });
  }

  async stop(): Promise<void> {
    await this.#daemon?.stop();
    await removeAll(this.folder);
    this.#lock.release();
  }
}
