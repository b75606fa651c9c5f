/** A process under load: started by the bench, measured through /proc, and ended with SIGTERM. Linux only. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { childEnvironment } from '#common/process/config.ts';
import { nodeOptions } from '#common/process/node-options.ts';
import type { SettingName } from '#common/process/settings.ts';

export interface Reading {
  /** User and system CPU time since the process started, in microseconds. */
  readonly cpuUs: number;
  readonly rssBytes: number;
}

/** CLK_TCK of Linux on every architecture that Node runs on (sysconf(3)). */
const ticksPerSecond = 100;
const pageBytes = 4096;

/** proc(5): utime and stime are fields 14 and 15, rss is 24; the name in field 2 may contain anything, even `)`. */
export function readProcess(pid: number): Reading {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { cpuUs: (ticks * 1e6) / ticksPerSecond, rssBytes: Number(fields[21]) * pageBytes };
}

/** CPU time of a process and its children: Postgres uses one per connection. */
export function treeCpuUs(pid: number): number {
  const children = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(Boolean);
  let sum = 0;
  for (const one of [pid, ...children.map(Number)]) {
    try {
      sum += readProcess(one).cpuUs;
    } catch {
      // It ended after it was listed.
    }
  }
  return sum;
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

  /**
   * Starts a program of this repository: a source file, or a built one (.js), which runs as in production. Its standard
   * error is inherited.
   */
  static start(
    name: string,
    file: string,
    settings: Partial<Record<SettingName, string>>,
    moreOptions: readonly string[] = [],
    args: readonly string[] = [],
  ): Subject {
    const loader = file.endsWith('.js') ? nodeOptions : ['--import', 'tsx'];
    const child = spawn(process.execPath, [...loader, ...moreOptions, file, ...args], {
      env: childEnvironment(settings),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (child.pid === undefined) throw new Error(`${name} could not be started`);
    return new Subject(name, child, child.pid);
  }

  /** Waits for standard output that matches. @throws if the process ends first or a minute passes. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    const child = this.#child;
    return await new Promise<RegExpExecArray>((done, fail) => {
      let text = '';
      const hear = (chunk: string) => {
        text = (text + chunk).slice(-65_536);
        const match = pattern.exec(text);
        if (match) finish(() => done(match));
      };
      const onExit = (code: number | null) => finish(() => fail(new Error(`${this.name} ended with ${code}: ${text}`)));
      const overdue = () => finish(() => fail(new Error(`${this.name} did not print ${pattern.source}: ${text}`)));
      const timer = setTimeout(overdue, 60_000);
      const finish = (settle: () => void) => {
        clearTimeout(timer);
        child.off('exit', onExit);
        child.stdout?.off('data', hear);
        settle();
      };
      child.once('exit', onExit);
      child.stdout?.setEncoding('utf8').on('data', hear);
    });
  }

  /** Writes to its standard input. */
  write(text: string): void {
    this.#child.stdin?.write(text);
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
