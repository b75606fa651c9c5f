/**
 * One child process on this machine: a server (Postgres, NATS, …) or a process of Signpost.
 *
 * It runs in its own session, so that Ctrl-C at the terminal reaches only the launcher. If the launcher dies, even by
 * kill -9, a guard ends the child: a few lines of shell that wait for the end of a pipe that only the launcher holds.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { searchPath } from '#common/process/config.ts';
import { sleep, systemTime } from '#common/time.ts';

/** Size at which a log file is rotated (one older file is kept). */
export const logBytesMax = 16 * 1024 * 1024;
const guardGraceMs = 10_000;

/** A failed start; the message is one sentence that says what to do. */
export class StartupError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'StartupError';
  }
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Child {
  readonly name: string;
  readonly pid: number;
  /** Settles when the process has ended, for whatever reason. */
  readonly exited: Promise<Exit>;
  /** The size of its log when it started; earlier lines belong to previous processes. */
  readonly logStart: number;
  hasExited(): boolean;
  /** Sends the stop signal, after the grace time the second signal, and finally SIGKILL. */
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
}

export interface ChildCommand {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Standard output and error are appended here. */
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
  readonly stopSignal?: NodeJS.Signals;
  /** Sent if the stop signal has not ended it within its grace time; SIGKILL if absent. SIGKILL follows after another one. */
  readonly insistSignal?: NodeJS.Signals;
  readonly stopGraceMs?: number;
}

// $1 pid, $2 signal, $3 the second signal, $4 tenths of a second of grace for each. A line on the pipe means that all is
// well; its end means that the launcher is gone.
const guardScript = `trap '' INT TERM HUP
read -r line && exit 0
for signal in "$2" "$3" KILL; do
  kill -s "$signal" "$1" 2>/dev/null || exit 0
  tenths=0
  while kill -0 "$1" 2>/dev/null && [ "$tenths" -lt "$4" ]; do sleep 0.1; tenths=$((tenths + 1)); done
done`;

function startGuard(pid: number, signals: readonly NodeJS.Signals[]): ChildProcess {
  const tenths = String(guardGraceMs / 100);
  const names = signals.map((signal) => signal.slice(3));
  const guard = spawn('/bin/sh', ['-c', guardScript, 'guard', String(pid), ...names, tenths], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: { PATH: searchPath() },
  });
  guard.on('error', () => undefined);
  guard.stdin?.on('error', () => undefined);
  guard.unref();
  return guard;
}

/** Starts the process and returns as soon as it exists; the caller checks whether it is ready. */
export async function startChild(command: ChildCommand): Promise<Child> {
  const { name, stopSignal = 'SIGTERM', insistSignal = 'SIGKILL', stopGraceMs = 10_000 } = command;
  const signals = [stopSignal, insistSignal];
  const log = openLog(command.logFile);
  const logStart = fstatSync(log).size;
  const child = spawn(command.command, command.args, {
    stdio: ['ignore', log, log],
    detached: true,
    ...(command.env === undefined ? {} : { env: command.env }),
    ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
    ...(command.uid === undefined ? {} : { uid: command.uid }),
    ...(command.gid === undefined ? {} : { gid: command.gid }),
  });
  closeSync(log);
  let ended = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      ended = true;
      resolve({ code, signal });
    });
  });
  const failure = await new Promise<Error | undefined>((resolve) => {
    child.once('spawn', () => resolve(undefined));
    child.once('error', resolve);
  });
  const { pid } = child;
  if (failure !== undefined || pid === undefined) {
    throw new StartupError(
      `${name} could not be started: ${failure?.message ?? 'the operating system returned no process id'}.`,
    );
  }
  child.on('error', () => undefined);
  const guard = startGuard(pid, signals);
  void exited.then(() => guard.stdin?.end('ended\n'));
  return {
    name,
    pid,
    exited,
    logStart,
    hasExited: () => ended,
    kill: (signal) => {
      if (!ended) child.kill(signal);
    },
    stop: () => stopWithin(child, exited, [...signals, 'SIGKILL'], stopGraceMs),
  };
}

/** Sends the next signal whenever the one before did not end the process within the grace time. */
async function stopWithin(
  child: ChildProcess,
  exited: Promise<Exit>,
  signals: readonly NodeJS.Signals[],
  graceMs: number,
) {
  const timers = signals.map((signal, at) => setTimeout(() => child.kill(signal), at * graceMs));
  await exited;
  for (const timer of timers) clearTimeout(timer);
}

function openLog(file: string): number {
  try {
    mkdirSync(dirname(file), { recursive: true });
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > logBytesMax) renameSync(file, `${file}.1`);
    return openSync(file, 'a', 0o600);
  } catch (error) {
    throw new StartupError(cannotWrite(dirname(file), error));
  }
}

export function cannotWrite(folder: string, error: unknown): string {
  const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  if (reason === 'ENOSPC' || reason === 'EDQUOT')
    return `${folder} cannot be written (${reason}): its disk is full. Free some space.`;
  return `${folder} cannot be written (${reason}): give this user write access, or set DATA_DIR to another folder.`;
}

/** Where a stack trace starts; the error message is above it. */
const traceLine = /^\s*(at .*|Node\.js v[\d.]+)?$/;
/** What a process logs for each of its parts after it has logged why it exits. */
const stoppedLine = /"msg":"stopped"/;

/** The last informative lines of a log from a position on, for a message about a failed start. */
export function logTail(file: string, from: number, lines = 8): string {
  try {
    const bytes = readFileSync(file);
    // If the log is shorter, it was truncated in the meantime.
    const informative = bytes
      .subarray(bytes.length < from ? 0 : from)
      .toString()
      .split('\n')
      .filter((line) => !traceLine.test(line) && !stoppedLine.test(line));
    return informative.slice(-lines).join('\n  ');
  } catch {
    return '(no log)';
  }
}

/**
 * Waits until the child answers. @throws StartupError with the end of its log if it ended or did not answer in time;
 * the child is then stopped.
 */
export async function waitUntilReady(
  child: Child,
  logFile: string,
  isReady: () => Promise<boolean>,
  timeoutMs: number,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 2, 50)) {
    if (child.hasExited()) {
      const { code, signal } = await child.exited;
      const how = signal === null ? `code ${code}` : signal;
      throw new StartupError(
        `${child.name} exited while starting (${how}). The end of ${logFile}:\n  ${logTail(logFile, child.logStart)}`,
      );
    }
    if (await isReady()) return;
    if (Date.now() > deadline) {
      // Read before the stop, which logs lines that would displace the informative ones.
      const tail = logTail(logFile, child.logStart);
      await child.stop();
      const seconds = Math.round(timeoutMs / 1000);
      throw new StartupError(`${child.name} did not answer within ${seconds} s. The end of ${logFile}:\n  ${tail}`);
    }
    await sleep(systemTime, pauseMs);
  }
}
