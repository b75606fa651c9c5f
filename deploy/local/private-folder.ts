import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { cannotWrite, StartupError } from './child.ts';

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
    `${folder} is accessible to other users (mode ${mode}), and its mode cannot be changed (${reason}): run chmod 700 on it as its owner, or set DATA_DIR to a folder that you own.`,
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
