/**
 * Where a local server has its Unix socket: in a private folder, so that no other user of the machine can answer in its
 * place while it restarts, as on a port.
 */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { StartupError } from './child.ts';

/** The longest path that a socket can have (unix(7): 108 bytes with the final zero; macOS: 104). */
const PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;
/** mkdtemp adds six characters. */
const prefix = 'signpost-';

/**
 * Makes an empty, private folder for a socket of this name: `socket` in the server's folder, or one with a shorter path in
 * the folder for temporary files. That one is remembered, because a server that is restarted keeps its address, unless
 * someone else took its name meanwhile. The caller holds the lock of the server's folder. @param uid the user who owns the folder
 * while the server runs. @throws StartupError
 */
export function makeSocketFolder(dataDir: string, name: string, uid = ownUid(), temporary = tmpdir()): string {
  const own = join(resolve(dataDir), 'socket');
  if (isShort(own, name)) {
    rmSync(own, { recursive: true, force: true });
    mkdirSync(own, { recursive: true, mode: 0o700 });
    return own;
  }
  const parent = [temporary, '/tmp'].find((folder) => isShort(join(folder, `${prefix}XXXXXX`), name));
  const remembered = rememberedFolder(dataDir);
  if (parent !== undefined && remembered !== undefined && takeFolder(remembered, name, uid)) return remembered;
  try {
    if (parent === undefined) throw new Error(`the path of ${temporary} is too long too`);
    const made = mkdtempSync(join(parent, prefix));
    writeFileSync(memoryOf(dataDir), `${own}\n${made}\n`, { mode: 0o600 });
    return made;
  } catch (error) {
    const room = PATH_BYTES_MAX - Buffer.byteLength(join('/', 'clickhouse', 'socket', name));
    throw new StartupError(
      `The path of ${own} is too long for a Unix socket, and no folder for temporary files can be used ` +
        `(${error instanceof Error ? error.message : error}). Set DATA_DIR to a path of at most ${room} bytes.`,
    );
  }
}

/** After the server's end: removes its folder if that is one for temporary files. */
export function removeSocketFolder(dataDir: string, name: string, uid = ownUid()): void {
  const remembered = rememberedFolder(dataDir);
  if (remembered === undefined) return;
  try {
    if (isOurs(remembered, uid)) {
      empty(remembered, name);
      rmdirSync(remembered);
    }
    rmSync(memoryOf(dataDir), { force: true });
  } catch {
    // Something else is in it. It is left alone, and a start makes another one.
  }
}

const memoryOf = (dataDir: string) => join(dataDir, 'socket-folder');

/** Of this very server's folder: a copy of it must not take the folder that the original uses. */
function rememberedFolder(dataDir: string): string | undefined {
  try {
    const [own, folder = ''] = readFileSync(memoryOf(dataDir), 'utf8').split('\n');
    return own === join(resolve(dataDir), 'socket') && basename(folder).startsWith(prefix) ? folder : undefined;
  } catch {
    return undefined;
  }
}

function isShort(folder: string, name: string): boolean {
  return Buffer.byteLength(join(folder, name)) <= PATH_BYTES_MAX;
}

const ownUid = () => process.getuid?.() ?? -1;

/** A private folder of this user, or of the server's. In a folder that all can write to, another user may have made it. */
function isOurs(folder: string, uid: number): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && (found.mode & 0o077) === 0 && [uid, ownUid()].includes(found.uid);
}

/** Whether the folder is now empty, private and ours. It stays in place, so that nobody else can take its name. */
function takeFolder(folder: string, name: string, uid: number): boolean {
  try {
    if (!isOurs(folder, uid)) mkdirSync(folder, { mode: 0o700 });
    empty(folder, name);
    return isShort(folder, name) && readdirSync(folder).length === 0;
  } catch {
    return false;
  }
}

/** Only what a server leaves there: while root removes more, the folder's owner could put a link in its place. */
function empty(folder: string, name: string): void {
  for (const left of [name, `${name}.lock`]) rmSync(join(folder, left), { force: true });
}
