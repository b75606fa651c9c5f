/** Whether another user of the machine decides what a path leads to. Root and the user of this process are trusted. */
import { lstatSync, readlinkSync, type Stats } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';

interface Part {
  readonly path: string;
  readonly found: Stats;
}

/** As many as Linux follows. */
const linksMax = 40;

/** What is on the way to the path, and where it ends: each existing folder, and each symbolic link with what it leads to. */
export function* partsOf(path: string, followed = 0): Generator<Part> {
  let at: string = sep;
  for (const name of ['', ...resolve(path).split(sep).filter(Boolean)]) {
    at = join(at, name);
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (found === undefined) return;
    yield { path: at, found };
    if (found.isSymbolicLink() && followed < linksMax)
      yield* partsOf(resolve(dirname(at), readlinkSync(at)), followed + 1);
  }
}

/** In a sentence; undefined if it belongs to this user or root. */
export function foreignOwner({ path, found }: Part): string | undefined {
  const own = process.geteuid?.();
  if (own === undefined || found.uid === own || found.uid === 0) return undefined;
  return `${path} belongs to another user (uid ${found.uid})`;
}

/** In a sentence; undefined if only this user and root can rename or remove what they have in the folder. */
export function foreignWriters({ path, found }: Part): string | undefined {
  const isSticky = (found.mode & 0o1000) !== 0;
  if (!found.isDirectory() || isSticky || process.getegid === undefined) return undefined;
  const isGroupOfOthers = found.gid !== process.getegid() && found.gid !== 0;
  const isOpen = (found.mode & 0o002) !== 0 || ((found.mode & 0o020) !== 0 && isGroupOfOthers);
  return isOpen ? `other users can write to ${path}` : undefined;
}
