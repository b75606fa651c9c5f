import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { StartupError } from './child.ts';
import { foreignOwner, foreignWriters, partsOf } from './path-owners.ts';

/**
 * Makes a folder for secrets where the operator says, and the folders above it that are missing: each with mode 0700. No other
 * user may decide where it is, or replace it later. @throws StartupError also if anything has that name, even a link to nowhere.
 */
export function makeNewFolder(path: string): void {
  const folder = resolve(path);
  if (lstatSync(folder, { throwIfNoEntry: false }) !== undefined)
    throw new StartupError(`${folder} already exists. Name a new folder: nothing is written into one that exists.`);
  refuseForeignPlace(folder);
  makeFolders(folder);
}

/** @throws StartupError if another user could put something else in the place of a file or a folder with this path. */
export function refuseForeignPlace(path: string): void {
  for (const part of partsOf(dirname(resolve(path)))) {
    const fault = foreignOwner(part) ?? foreignWriters(part);
    if (fault === undefined) continue;
    throw new StartupError(
      `${fault}, who could read or replace ${path}: choose a place in a folder of your own, or of root.`,
    );
  }
}

/** Not Node's recursive mkdir, which repeats itself without end where the kernel makes no folders, such as below /proc. */
function makeFolders(folder: string): void {
  if (!existsSync(dirname(folder))) makeFolders(dirname(folder));
  mkdirSync(folder, { mode: 0o700 });
}
