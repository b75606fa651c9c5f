/**
 * Who decides where a restore writes. Root restores into the folder of the user who runs npm start, so its owner may be
 * another user, but no link of another user is followed.
 */
import { lstatSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import { StartupError } from '#deploy/local/child.ts';
import { foreignOwner, partsOf } from '#deploy/local/path-owners.ts';

/** @throws StartupError for a DATA_DIR that a link of another user leads to, or that others than its owner can write to. */
export function refuseForeignTarget(dataDir: string): void {
  for (const part of partsOf(dataDir)) if (part.found.isSymbolicLink()) refuseForeignLink(part);
  const found = statSync(dataDir, { throwIfNoEntry: false });
  if (found === undefined || !isOpenToWriters(found)) return;
  throw new StartupError(
    `Others than its owner can write to ${dataDir}, and may have put files or links there: run chmod 700 on it if all in it is yours, or set DATA_DIR to another folder. Nothing was restored.`,
  );
}

/** @param entries paths in DATA_DIR. @throws StartupError if a link of another user is one of them, or on the way to one. */
export function refuseForeignLinks(dataDir: string, entries: Iterable<string>): void {
  const seen = new Set<string>();
  for (const entry of entries) {
    let path = dataDir;
    for (const name of entry.split(sep)) {
      path = join(path, name);
      if (seen.has(path)) continue;
      seen.add(path);
      const found = lstatSync(path, { throwIfNoEntry: false });
      if (found === undefined) break;
      if (found.isSymbolicLink()) refuseForeignLink({ path, found });
    }
  }
}

function refuseForeignLink(part: Parameters<typeof foreignOwner>[0]): void {
  const fault = foreignOwner(part);
  if (fault === undefined) return;
  throw new StartupError(`${fault} and is a link, which a restore does not follow: remove it. Nothing was restored.`);
}

/** The group of this process, and root's, have no other users in most systems. */
function isOpenToWriters({ mode, gid }: { readonly mode: number; readonly gid: number }): boolean {
  const isGroupOfOthers = gid !== process.getegid?.() && gid !== 0;
  return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && isGroupOfOthers);
}
