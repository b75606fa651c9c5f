/** Another ingest next to the launcher's, as on a second machine: the same settings under its own name. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { sleep, systemTime } from '#common/time.ts';
import type { Stack } from '#deploy/journeys/stack.ts';

export class SecondIngest {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  output = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = new Promise((done) => child.once('exit', done));
    const keep = (chunk: Buffer) => {
      this.output = (this.output + chunk.toString()).slice(-20_000);
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
  }

  /** Starts it with the command, environment and folder that Linux reports for the launcher's ingest. */
  static async start(stack: Stack): Promise<SecondIngest> {
    const of = `/proc/${stack.pidOf('ingest')}`;
    const parts = (file: string) => readFileSync(`${of}/${file}`, 'utf8').split('\0').filter(Boolean);
    const env = Object.fromEntries(
      parts('environ').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    );
    const [command = '', ...args] = parts('cmdline');
    const child = spawn(command, args, {
      cwd: readlinkSync(`${of}/cwd`),
      env: { ...env, INSTANCE: 'ingest-second', METRICS_PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const second = new SecondIngest(child);
    const deadline = Date.now() + 30_000;
    while (!second.output.includes('"part":"ingest"')) {
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`the second ingest did not start:\n${second.output}`);
      await sleep(systemTime, 50);
    }
    return second;
  }

  async freeze(forMs: number): Promise<void> {
    this.#child.kill('SIGSTOP');
    await sleep(systemTime, forMs);
    this.#child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    const insist = setTimeout(() => this.#child.kill('SIGKILL'), 15_000);
    await this.#ended;
    clearTimeout(insist);
  }
}
