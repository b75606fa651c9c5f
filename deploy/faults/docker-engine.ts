/** A Docker of its own for a test: its data in a folder, its network in a namespace that reaches the outside. Needs root. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemEnvironment } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';
import { connectedNamespace } from '#deploy/docs-run/outside.ts';
import { openShell, type Shell } from '#deploy/docs-run/shell.ts';

const network = '10.231.79';
const readyMsMax = 60_000;
const stopMsMax = 60_000;

export const neededPrograms = [
  ...['dockerd', 'containerd', 'runc', 'docker', 'docker-compose'],
  ...['debootstrap', 'ip', 'iptables', 'nsenter', 'mount', 'tar'],
];

export class DockerEngine {
  /** At which the published ports of containers answer. */
  readonly address = `${network}.2`;
  readonly folder = mkdtempSync(join(tmpdir(), 'signpost-docker-'));
  readonly #name = `containers-${process.pid}`;
  readonly #cleanUp: (() => void)[] = [];
  #daemon: ChildProcess | undefined;

  private constructor() {
    this.#cleanUp.push(() => rmSync(this.folder, { recursive: true, force: true }));
  }

  static async start(): Promise<DockerEngine> {
    const engine = new DockerEngine();
    try {
      connectedNamespace(engine.#name, network, engine.#cleanUp);
      await engine.#start();
      return engine;
    } catch (error) {
      await engine.stop();
      throw error;
    }
  }

  /** Only the network, because `ip netns exec` would hide the control groups too. */
  get #within(): readonly string[] {
    return ['nsenter', `--net=/run/netns/${this.#name}`];
  }

  get #environment(): Record<string, string> {
    return {
      ...systemEnvironment(),
      ...{ DOCKER_HOST: `unix://${join(this.folder, 'socket')}`, DOCKER_CONFIG: join(this.folder, 'client') },
      HOME: this.folder,
    };
  }

  async #start(): Promise<void> {
    const at = (name: string) => join(this.folder, name);
    const log = openSync(at('log'), 'w');
    const places = ['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid')];
    const [command = '', ...words] = [...this.#within, 'dockerd', ...places, '-H', `unix://${at('socket')}`];
    this.#daemon = spawn(command, words, { stdio: ['ignore', log, log], env: systemEnvironment(), detached: true });
    closeSync(log);
    const deadline = Date.now() + readyMsMax;
    while ((await this.docker('version').catch(() => '')) === '') {
      if (this.#daemon.exitCode !== null || Date.now() > deadline)
        throw new Error(`dockerd does not answer:\n${readFileSync(at('log'), 'utf8').slice(-2_000)}`);
      await sleep(systemTime, 250);
    }
  }

  /** @returns what `docker …` prints. */
  async docker(...args: string[]): Promise<string> {
    const options = { env: this.#environment, maxBuffer: 64 * 1024 * 1024 };
    return (await promisify(execFile)('docker', args, options)).stdout.trim();
  }

  /** A shell in the network of the containers, whose `docker` and `docker-compose` use this engine. */
  shell(cwd: string, print: (text: string) => void): Shell {
    return openShell([...this.#within, 'bash', '-e'], print, { cwd, env: this.#environment });
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined && daemon.exitCode === null) {
      const containers = await this.docker('ps', '--quiet').catch(() => '');
      if (containers !== '') await this.docker('kill', ...containers.split('\n')).catch(() => '');
      const ended = new Promise((done) => daemon.once('exit', done));
      daemon.kill('SIGTERM');
      const timer = setTimeout(() => daemon.kill('SIGKILL'), stopMsMax);
      await ended;
      clearTimeout(timer);
    }
    for (const cleanUp of this.#cleanUp.reverse()) cleanUp();
  }
}
