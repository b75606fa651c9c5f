/**
 * A lock file that a killed process does not keep. It names its process by id and start, because ids are used again,
 * and has a random token. It changes hands only by steps of the file system of which one process alone succeeds:
 *
 *     absent ──link──→ held ──unlink, by its process──→ absent
 *     held by a process that has ended ──rename, by the holder of the lock `<file>.<its token>`──→ held
 *
 * That second lock is taken in the same way, so a process that ends while it takes over blocks no other. On a volume
 * without hard links, `link` is replaced by creating the file and then writing it: the lock is empty for a moment.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';

interface Owner {
  readonly pid: number;
  /** Empty if the system does not say. */
  readonly start: string;
  readonly token: string;
}

/** Each time, another process took or freed the lock in the meantime. */
const TRIES_MAX = 1_000;

/** How long an empty lock may still be written. */
const WRITING_MS = 100;
/** Errors of a volume without hard links; EISDIR is what exFAT on Windows answers. */
const LINKLESS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EISDIR'];
const newFile = { flag: 'wx', mode: 0o600 } as const;

type Link = (from: string, to: string) => void;

/** @returns what frees the lock. @throws what `inUse` returns if a running process has it. */
export function takeLock(file: string, inUse: (pid: number) => Error, link: Link = linkSync): () => void {
  const token = randomBytes(8).toString('hex');
  const draft = `${file}.${token}.new`;
  try {
    writeFileSync(draft, `${process.pid} ${startOf(process.pid)} ${token}`, newFile);
    take(file, draft, inUse, link);
  } finally {
    rmSync(draft, { force: true });
  }
  return () => {
    // Someone may have deleted the lock, and another process taken it.
    if (ownerOf(read(file) ?? '').token === token) rmSync(file, { force: true });
  };
}

function take(file: string, draft: string, inUse: (pid: number) => Error, link: Link): void {
  let pid = 0;
  let hasWaited = false;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if (create(draft, file, link)) return;
    const text = read(file);
    if (text === null) continue;
    if (text === '' && !hasWaited) {
      hasWaited = true;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WRITING_MS);
      continue;
    }
    const owner = ownerOf(text);
    pid = owner.pid;
    if (isRunning(owner)) break;
    const free = takeLock(`${file}.${owner.token}`, inUse, link);
    try {
      // Another process may have replaced it before this one could.
      if (read(file) !== text) continue;
      renameSync(draft, file);
      return;
    } finally {
      free();
    }
  }
  throw inUse(pid);
}

/** @returns whether the name was free. */
function create(draft: string, file: string, link: Link): boolean {
  try {
    link(draft, file);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    if (!LINKLESS.includes(codeOf(error) ?? '')) throw error;
  }
  try {
    writeFileSync(file, readFileSync(draft), newFile);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function read(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

function ownerOf(text: string): Owner {
  const [pid, start = '', token = ''] = text.split(' ');
  return { pid: Number(pid), start, token: /^\w+$/.test(token) ? token : 'unknown' };
}

function isRunning({ pid, start }: Owner): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it runs as another user.
    if (codeOf(error) !== 'EPERM') return false;
  }
  const now = startOf(pid);
  return start === '' || now === '' || now === start;
}

/** Tells a process from earlier and later ones with its id. Linux only; elsewhere empty. */
function startOf(pid: number): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    // The name of the program, in parentheses, may contain spaces and parentheses.
    const [state = '', ...fields] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    // An ended process keeps its id until its parent has asked for its exit code.
    return /^[ZX]/.test(state) ? 'ended' : `${boot}:${fields[18]}`;
  } catch {
    return '';
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;
