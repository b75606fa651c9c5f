import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { cannotWrite, StartupError } from './child.ts';
import { foreignOwner, partsOf } from './path-owners.ts';

/**
 * Creates DATA_DIR if absent, and denies access to every other user of the machine, which protects everything below it. Its
 * direct entries (secrets, server folders) get owner-only modes too, in case they are copied elsewhere.
 * @throws StartupError when other users still have access.
 */
export function makeDataFolderPrivate(folder: string): void {
  let reason = 'its file system does not support file modes';
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StartupError(cannotWrite(folder, error));
  }
  const mayBePlanted = (statSync(folder).mode & 0o002) !== 0;
  if (mayBePlanted) refuseContent(folder);
  try {
    if (isOpenToOthers(folder)) chmodSync(folder, 0o700);
  } catch (error) {
    reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
  if (!isOpenToOthers(folder)) {
    if (mayBePlanted) refuseContent(folder);
    closeEntries(folder);
    return;
  }
  const mode = (statSync(folder).mode & 0o777).toString(8);
  throw new StartupError(
    `${folder} is accessible to other users (mode ${mode}), and its mode cannot be changed (${reason}): run chmod 700 on it as its owner, or set DATA_DIR to a folder that you own.`,
  );
}

/**
 * For a DATA_DIR that npm start uses: its owner, and whoever owns a link that leads to it, can replace its secrets.
 * @throws StartupError if that is neither this user nor root.
 */
export function refuseForeignDataFolder(folder: string): void {
  const parts = [...partsOf(folder)];
  const end = parts.findLast(({ found }) => !found.isSymbolicLink());
  const isDecisive = (part: (typeof parts)[number]) =>
    part.found.isSymbolicLink() || (part === end && existsSync(folder));
  const fault = parts.filter(isDecisive).map(foreignOwner).find(Boolean);
  if (fault === undefined) return;
  throw new StartupError(
    `${fault}, who could replace what is in DATA_DIR: start as that user, or set DATA_DIR to a folder of your own. If all in it is yours, chown it.`,
  );
}

/** Whoever could write there may have put secrets or programs of their own. @throws StartupError unless it is empty. */
function refuseContent(folder: string): void {
  if (readdirSync(folder).length === 0) return;
  throw new StartupError(
    `Every user of the machine can write to ${folder}, and may have put files there: set DATA_DIR to another folder. If all in it is yours, run chmod 700 on it.`,
  );
}

/** Earlier versions created some of them with the umask of the shell. */
function closeEntries(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (!(entry.isFile() || entry.isDirectory()) || !isOpenToOthers(path)) continue;
    try {
      chmodSync(path, entry.isDirectory() ? 0o700 : 0o600);
    } catch {
      // Owned by another user, but inside a private folder.
    }
  }
}

function isOpenToOthers(folder: string): boolean {
  return (statSync(folder).mode & 0o077) !== 0;
}
