/**
 * The files of the store that FREEZE omits: definitions of tables, pending mutations, the data of Join tables. With
 * them, a frozen copy is a complete store that the engine can open.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Where FREEZE puts its hard links, below the store. */
export const shadowFolder = 'shadow';

/** The folder of a database or a table: `store/<3 characters>/<uuid>`. */
function foldersOfTables(store: string): string[] {
  const below = (folder: string) =>
    readdirSync(join(store, folder), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(folder, entry.name));
  return existsSync(join(store, 'store')) ? below('store').flatMap(below) : [];
}

/** Copies the files directly in each folder; parts are folders, and FREEZE has linked them. */
export function completeFrozenStore(store: string, frozen: string): void {
  for (const folder of ['metadata', ...foldersOfTables(store)]) {
    for (const entry of readdirSync(join(store, folder), { withFileTypes: true })) {
      const file = join(folder, entry.name);
      // Without this folder, a Join table ignores its data.
      if (entry.isDirectory() && entry.name === 'tmp') mkdirSync(join(frozen, file), { recursive: true });
      // The engine finds its first database only through a link.
      if (entry.isSymbolicLink()) linkInto(frozen, file, readlinkSync(join(store, file)));
      if (entry.isFile()) copyInto(join(store, file), join(frozen, file));
    }
  }
}

function linkInto(frozen: string, file: string, target: string): void {
  mkdirSync(dirname(join(frozen, file)), { recursive: true });
  symlinkSync(target, join(frozen, file));
}

function copyInto(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  try {
    copyFileSync(from, to);
  } catch (error) {
    // A finished mutation or a replaced draft.
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
}
