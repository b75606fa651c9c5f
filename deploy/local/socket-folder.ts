/**
 * Where a local server has its Unix socket: in a private folder, so that no other user of the machine can answer in its
 * place while it restarts, as on a port.
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { StartupError } from './child.ts';

/** The longest path that a socket can have (unix(7): 108 bytes with the final zero; macOS: 104). */
const PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/**
 * Makes a new, empty folder for a socket of this name: `socket` in the server's folder, or one with a shorter path in the
 * folder for temporary files. The caller holds the lock of the server's folder. @throws StartupError if neither can be used.
 */
export function makeSocketFolder(dataDir: string, name: string, temporary = tmpdir()): string {
  const own = join(resolve(dataDir), 'socket');
  if (isShort(own, name)) {
    rmSync(own, { recursive: true, force: true });
    mkdirSync(own, { recursive: true, mode: 0o700 });
    return own;
  }
  const id = createHash('sha256').update(own).digest('hex').slice(0, 16);
  const short = [temporary, '/tmp'].map((folder) => join(folder, `signpost-${id}`)).find((one) => isShort(one, name));
  const room = PATH_BYTES_MAX - Buffer.byteLength(join('/', 'clickhouse', 'socket', name));
  if (short === undefined || !takeFolder(short, name))
    throw new StartupError(
      `The path of ${own} is too long for a Unix socket, and ${short} belongs to someone else or is open to others. ` +
        `Set DATA_DIR to a path of at most ${room} bytes, or remove ${short}.`,
    );
  return short;
}

function isShort(folder: string, name: string): boolean {
  return Buffer.byteLength(join(folder, name)) <= PATH_BYTES_MAX;
}

/** Whether the folder is now empty, private and ours. In a folder that all can write to, another user may have made it. */
function takeFolder(folder: string, name: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
    return true;
  } catch {
    const found = lstatSync(folder, { throwIfNoEntry: false });
    const uid = process.getuid?.();
    if (!found?.isDirectory() || (found.mode & 0o077) !== 0 || (found.uid !== uid && uid !== 0)) return false;
    // Only what a server leaves there: while root removes more, its owner could put a link in its place.
    try {
      for (const left of [name, `${name}.lock`]) rmSync(join(folder, left), { force: true });
      rmdirSync(folder);
      mkdirSync(folder, { mode: 0o700 });
      return true;
    } catch {
      return false;
    }
  }
}
