import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { cannotWrite, StartupError } from './child.ts';

/**
 * Makes DATA_DIR if it is not there, and closes it to every other user of the machine: what is below needs no look then.
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
  if (!isOpenToOthers(folder)) return;
  const mode = (statSync(folder).mode & 0o777).toString(8);
  throw new StartupError(
    `${folder} is open to other users (mode ${mode}) and can't be closed (${reason}): run chmod 700 on it as its owner, or set DATA_DIR to a folder of your own.`,
  );
}

function isOpenToOthers(folder: string): boolean {
  return (statSync(folder).mode & 0o077) !== 0;
}
