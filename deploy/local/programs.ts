import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import { searchPath } from '#common/process/config.ts';

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The first of these programs on the PATH (or in one of the extra folders). */
export function findProgram(names: readonly string[], extraFolders: readonly string[] = []): string | undefined {
  const folders = [...searchPath().split(delimiter), ...extraFolders].filter((folder) => folder !== '');
  for (const name of names) {
    const found = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * The file that a package provides under this name, resolved from another package or from here; nothing if it isn't
 * installed.
 */
export function findInPackage(name: string, from: string = import.meta.url): string | undefined {
  try {
    return createRequire(from).resolve(name);
  } catch {
    return undefined;
  }
}
