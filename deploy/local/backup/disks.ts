import { execFile } from 'node:child_process';
import { lstatSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemEnvironment } from '#common/process/config.ts';
import { StartupError } from '#deploy/local/child.ts';
import { treeBelow } from './backup-files.ts';

/** What must stay free: the source grows meanwhile, and a full disk would stop the installation. */
const marginBytes = 1024 ** 3;
const gib = (bytes: number) => (bytes / 1024 ** 3).toFixed(1);

/**
 * @param replaced folders on that disk that are deleted first.
 * @throws StartupError if the disk of `folder`, which exists, has not enough room for a copy of the sources.
 */
export function refuseWithoutRoom(folder: string, sources: readonly string[], replaced: readonly string[] = []): void {
  const { bavail, bsize } = statfsSync(folder);
  const bytesOf = (folders: readonly string[]) => folders.reduce((sum, one) => sum + bytesBelow(one), 0);
  const needed = bytesOf(sources) - bytesOf(replaced) + marginBytes;
  if (bavail * bsize >= needed) return;
  throw new StartupError(
    `${folder} has ${gib(bavail * bsize)} GiB free, and ${gib(needed)} GiB are needed (1 of them stays free): free some, or choose another disk.`,
  );
}

function bytesBelow(folder: string): number {
  // A file may go meanwhile.
  const size = (file: string) => lstatSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0;
  return treeBelow(folder).files.reduce((sum, file) => sum + size(file), 0);
}

/** Syncs everything that was copied to disk, so that it survives a power loss. */
export async function flushDisks(): Promise<void> {
  await promisify(execFile)('sync', [], { env: systemEnvironment() });
}
