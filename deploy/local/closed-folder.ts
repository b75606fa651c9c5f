import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { cannotWrite, StartupError } from './child.ts';

/**
 * Makes DATA_DIR if it is not there, and closes it to every other user of the machine: nobody gets to what is below then. What
 * lies directly in it, secrets and the folders of servers, is closed too, for the day when it is copied elsewhere.
 * @throws StartupError when it stays open to others.
 */
export function closeDataFolder(folder: string): void {
  let reason = 'its file system keeps no such modes';
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StartupError(cannotWrite(folder, error));
  }
  try {
    if (isOpenToOthers(folder)) chmodSync(folder, 0o700);
  } catch (error) {
    reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
  if (!isOpenToOthers(folder)) {
    closeEntries(folder);
    return;
  }
  const mode = (statSync(folder).mode & 0o777).toString(8);
  throw new StartupError(
    `${folder} is open to other users (mode ${mode}) and can't be closed (${reason}): run chmod 700 on it as its owner, or set DATA_DIR to a folder of your own.`,
  );
}

/** Versions before this one made some of them with the modes of the shell that started them. */
function closeEntries(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (!(entry.isFile() || entry.isDirectory()) || !isOpenToOthers(path)) continue;
    try {
      chmodSync(path, entry.isDirectory() ? 0o700 : 0o600);
    } catch {
      // Another user's, in a folder that is closed.
    }
  }
}

function isOpenToOthers(folder: string): boolean {
  return (statSync(folder).mode & 0o077) !== 0;
}
