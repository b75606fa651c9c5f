/** A process under load: started by us, measured through /proc, ended through the pipe it reads. Linux only. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { childEnvironment, type SettingName } from '#common/config.ts';

export interface Reading {
  /** CPU time in user and kernel since the process began, in microseconds. */
  readonly cpuUs: number;
  readonly rssBytes: number;
}

/** CLK_TCK of Linux on every architecture that Node runs on (sysconf(3)). */
const ticksPerSecond = 100;
const pageBytes = 4096;

/** proc(5): utime and stime are fields 14 and 15, rss is 24; the name in field 2 may hold anything, even `)`. */
export function readProcess(pid: number): Reading {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { cpuUs: (ticks * 1e6) / ticksPerSecond, rssBytes: Number(fields[21]) * pageBytes };
}

export class Subject {
  readonly name: string;
  readonly pid: number;
  readonly #child: ChildProcess;

  private constructor(name: string, child: ChildProcess, pid: number) {
    this.name = name;
    this.#child = child;
    this.pid = pid;
  }

  /** Starts a program of ours; its standard error is ours. */
  static start(
    name: string,
    file: string,
    settings: Partial<Record<SettingName, string>>,
    nodeOptions: readonly string[] = [],
    args: readonly string[] = [],
  ): Subject {
    const child = spawn(process.execPath, ['--import', 'tsx', ...nodeOptions, file, ...args], {
      env: childEnvironment(settings),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (child.pid === undefined) throw new Error(`${name} could not be started`);
    return new Subject(name, child, child.pid);
  }

  /** Waits for a line of its standard output that matches. @throws when it ends first or 20 s are over. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    let text = '';
    const found = new Promise<RegExpExecArray>((done, fail) => {
      this.#child.once('exit', (code) => fail(new Error(`${this.name} ended with ${code}: ${text}`)));
      this.#child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
        text = (text + chunk).slice(-65_536);
        const match = pattern.exec(text);
        if (match) done(match);
      });
    });
    const overdue = pause(20_000, undefined, { ref: false }).then(() => {
      throw new Error(`${this.name} did not say ${pattern.source}: ${text}`);
    });
    return Promise.race([found, overdue]);
  }

  read(): Reading {
    return readProcess(this.pid);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = new Promise((done) => this.#child.once('exit', done));
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 15_000);
    await ended;
    clearTimeout(timer);
  }
}
