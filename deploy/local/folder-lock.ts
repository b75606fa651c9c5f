/**
 * One running instance per data folder. The lock is a file that names its holder by pid and start time. The lock of
 * a process that has ended, or whose pid was reused, is ignored.
 *
 * The journal's lock (`common/journal/slot-lock.ts`) is a socket that its holder listens on. Here the holder is usually
 * another program, such as Postgres, which outlives a killed launcher and must then still hold its folder.
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sleep, systemTime } from '#common/time.ts';
import { isZombie } from './ancestry.ts';
import { cannotWrite, StartupError } from './child.ts';

/** A lock file always names its holder. One without a name was left by a power loss, or belongs to another program. */
const emptyGraceMs = 1_000;

export interface FolderLock {
  /** Names another process as the holder, such as the server that was started in the folder. */
  passTo(pid: number): void;
  release(): void;
}

/** `pid starttime`: on Linux the start in clock ticks since boot, elsewhere empty. */
function holderText(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return `${pid} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''}`;
  } catch {
    return `${pid} `;
  }
}

function isHeld(text: string): boolean {
  const pid = Number(text.split(' ')[0]);
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (codeOf(error) !== 'EPERM') return false;
  }
  return holderText(pid) === text && !isZombie(pid);
}

function writeDraft(file: string, text: string): string {
  const draft = `${file}.${process.pid}.${Math.random().toString(36).slice(2)}`;
  writeFileSync(draft, text, { flag: 'wx', mode: 0o600 });
  return draft;
}

function writeNew(file: string, text: string): boolean {
  const draft = writeDraft(file, text);
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/**
 * Reads the lock; undefined if there is none. @throws StartupError if it exists but cannot be read, which waiting would
 * not change.
 */
function readLock(folder: string, file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new StartupError(
      `${file} cannot be read (${codeOf(error) ?? error}): delete it if nothing uses ${folder}, or set DATA_DIR to another folder.`,
    );
  }
}

function hasText(file: string, text: string): boolean {
  try {
    return readFileSync(file, 'utf8') === text;
  } catch {
    return false;
  }
}

/** Moves a stale lock aside, and back if it turns out to be another process's fresh lock. */
function removeStale(file: string, stale: string): void {
  const aside = `${file}.stale.${process.pid}`;
  try {
    renameSync(file, aside);
    if (!hasText(aside, stale)) linkSync(aside, file);
  } catch (error) {
    // Another process was faster; the caller's next attempt sees its lock.
    if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'EEXIST') throw error;
  }
  rmSync(aside, { force: true });
}

/**
 * Locks the folder for this process; creates it if absent.
 * @param waitMs how long to wait for a holder that is exiting.
 * @throws StartupError that names the process holding the lock.
 */
export async function lockFolder(folder: string, waitMs = 0): Promise<FolderLock> {
  const file = join(folder, 'lock');
  const deadline = Date.now() + waitMs;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    let emptySince: number | undefined;
    while (!writeNew(file, holderText(process.pid))) {
      const holder = readLock(folder, file);
      emptySince = holder === '' ? (emptySince ?? performance.now()) : undefined;
      const isEmptyStill = emptySince !== undefined && performance.now() - emptySince >= emptyGraceMs;
      if (isEmptyStill || (holder && !isHeld(holder))) {
        removeStale(file, holder ?? '');
      } else if (Date.now() >= deadline && holder) {
        throw new StartupError(
          `${folder} is in use by process ${holder.split(' ')[0]}: stop that process, or set DATA_DIR to another folder.`,
        );
      } else {
        await sleep(systemTime, 20);
      }
    }
  } catch (error) {
    throw error instanceof StartupError ? error : new StartupError(cannotWrite(folder, error));
  }
  return {
    passTo: (pid) => renameSync(writeDraft(file, holderText(pid)), file),
    release: () => rmSync(file, { force: true }),
  };
}
