/**
 * One running instance per data folder. The lock is a file that names its holder by pid and start time, so the lock of
 * a process that is gone, or whose pid now belongs to another, counts for nothing.
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cannotWrite, StartupError } from './child.ts';

/** A lock is written with its holder's name. One without is what a loss of power left, or something that is not ours. */
const emptyGraceMs = 1_000;

export interface FolderLock {
  /** Names another process as the holder, the server that was started in the folder, say. */
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

function isZombie(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.charAt(stat.lastIndexOf(')') + 2) === 'Z';
  } catch {
    return false;
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
 * Undefined when there is no lock.
 * @throws StartupError when it is there and can't be read: waiting would not change that.
 */
function readLock(folder: string, file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new StartupError(
      `${file} can't be read (${codeOf(error) ?? error}): delete it if nothing uses ${folder}, or set DATA_DIR to another folder.`,
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

/** Moves a stale lock away, and back if somebody else's fresh one was caught instead. */
function removeStale(file: string, stale: string): void {
  const aside = `${file}.stale.${process.pid}`;
  try {
    renameSync(file, aside);
    if (!hasText(aside, stale)) linkSync(aside, file);
  } catch (error) {
    // Somebody else was faster; the next round of the caller sees what they did.
    if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'EEXIST') throw error;
  }
  rmSync(aside, { force: true });
}

/**
 * Takes the folder, made if absent, for this process.
 * @param waitMs how long to wait for a holder that is just ending.
 * @throws StartupError naming the process that has it.
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
          `${folder} is in use by process ${holder.split(' ')[0]}: stop that one, or set DATA_DIR to another folder.`,
        );
      } else {
        await delay(20);
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
