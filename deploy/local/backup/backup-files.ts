/**
 * The files of a backup, and their checksums in SHA256SUMS, in the format that `sha256sum --check` reads. A backup holds
 * secrets: only its owner may read it.
 */
import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  type Dirent,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs';
import { appendFile, type FileHandle, lstat, open, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { StartupError } from '#deploy/local/child.ts';

export const checksumsFile = 'SHA256SUMS';
const copiesMax = 8;

interface Tree {
  readonly files: readonly string[];
  readonly folders: readonly string[];
  readonly links: readonly string[];
}

/** Everything below the folder, relative to it. Omits sockets, and files that disappear in the meantime. */
export function treeBelow(folder: string): Tree {
  const [files, folders, links]: [string[], string[], string[]] = [[], [], []];
  const walk = (path: string) => {
    let entries: Dirent[];
    try {
      entries = readdirSync(join(folder, path), { withFileTypes: true });
    } catch (error) {
      if (isGone(error)) return;
      throw error;
    }
    for (const entry of entries) {
      const inner = join(path, entry.name);
      if (entry.isFile()) files.push(inner);
      if (entry.isSymbolicLink()) links.push(inner);
      if (!entry.isDirectory()) continue;
      folders.push(inner);
      walk(inner);
    }
  };
  walk('');
  return { files: files.sort(), folders, links };
}

function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Copies a file up to its current length, to a new file in place of an old one. @returns its SHA-256, or null if it does not exist (any more). */
async function copyFile(from: string, to: string): Promise<string | null> {
  let source: FileHandle;
  try {
    source = await open(from);
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
  const hash = createHash('sha256');
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  const chunks = source.createReadStream({ highWaterMark: 1024 * 1024 });
  chunks.on('data', (chunk) => hash.update(chunk));
  rmSync(to, { force: true });
  await pipeline(chunks, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  return hash.digest('hex');
}

/** Runs the work for each item, a few at a time. */
async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items].reverse();
  const worker = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: copiesMax }, worker));
}

/** Copies files, named relative to both folders. Files that disappear in the meantime are omitted. */
export async function copyFiles(
  from: string,
  to: string,
  files: readonly string[],
  onCopied: (file: string, sum: string) => Promise<void> = async () => undefined,
): Promise<void> {
  await forEach(files, async (file) => {
    const sum = await copyFile(join(from, file), join(to, file));
    if (sum !== null) await onCopied(file, sum);
  });
}

/** Copies a folder with its empty folders, which Postgres and ClickHouse need. @param isWanted decides by the path below `from`. */
export async function copyFolder(
  from: string,
  to: string,
  isWanted: (path: string, isFile: boolean) => boolean = () => true,
  onCopied?: (file: string, sum: string) => Promise<void>,
): Promise<void> {
  const { files, folders } = treeBelow(from);
  for (const folder of folders.filter((path) => isWanted(path, false)))
    mkdirSync(join(to, folder), { recursive: true, mode: 0o700 });
  await copyFiles(
    from,
    to,
    files.filter((path) => isWanted(path, true)),
    onCopied,
  );
}

/** Writes into a backup, with a line in SHA256SUMS for each file. */
export class BackupWriter {
  readonly #folder: string;
  /** Symbolic links and their targets. They are recorded, not copied, so that the backup can be stored anywhere. */
  readonly links: Record<string, string> = {};

  constructor(folder: string) {
    this.#folder = folder;
  }

  async addFolder(from: string, to: string, isWanted?: (path: string) => boolean): Promise<void> {
    for (const link of treeBelow(from).links) this.links[join(to, link)] = readlinkSync(join(from, link));
    await copyFolder(from, join(this.#folder, to), isWanted, (file, sum) => this.#list(sum, join(to, file)));
  }

  async addFile(from: string, to: string): Promise<void> {
    const sum = await copyFile(from, join(this.#folder, to));
    if (sum !== null) await this.#list(sum, to);
  }

  async addText(text: string, to: string): Promise<void> {
    mkdirSync(dirname(join(this.#folder, to)), { recursive: true, mode: 0o700 });
    await writeFile(join(this.#folder, to), text, { flag: 'wx', mode: 0o600 });
    await this.#list(createHash('sha256').update(text).digest('hex'), to);
  }

  async #list(sum: string, file: string): Promise<void> {
    await appendFile(join(this.#folder, checksumsFile), `${sum}  ${file}\n`, { mode: 0o600 });
  }
}

/** Whether a path of a backup is inside it. */
export function isInside(path: string): boolean {
  return path !== '' && !isAbsolute(path) && !path.split(sep).includes('..') && !path.includes('\0');
}

/**
 * Reads every listed file of the backup. @returns their names. @throws StartupError that names the first one that is damaged or
 * missing, or outside the backup.
 */
export async function verifyBackup(folder: string): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  const listed = readFileSync(join(folder, checksumsFile), 'utf8').split('\n');
  const lines = listed.filter((line) => line !== '');
  await forEach(lines, async (line) => {
    const [sum, file] = [line.slice(0, 64), line.slice(66)];
    if (!isInside(file) || !(await isRegular(folder, file)))
      throw new StartupError(`The backup lists ${file}, which is not a file inside it. Nothing was restored.`);
    names.add(file);
    const hash = createHash('sha256');
    try {
      for await (const chunk of createReadStream(join(folder, file))) hash.update(chunk as Buffer);
    } catch (error) {
      if (!isGone(error)) throw error;
      throw new StartupError(`The backup is damaged: ${join(folder, file)} is missing. Nothing was restored.`);
    }
    if (hash.digest('hex') === sum) return;
    throw new StartupError(`The backup is damaged: ${join(folder, file)} has changed. Nothing was restored.`);
  });
  return names;
}

/** False if the file, or a folder on the way to it, is a symbolic link; a missing file is reported when it is read. */
async function isRegular(folder: string, file: string): Promise<boolean> {
  const parts = file.split(sep);
  for (const at of parts.keys()) {
    const found = await lstat(join(folder, ...parts.slice(0, at + 1))).catch(() => undefined);
    if (found?.isSymbolicLink() === true) return false;
  }
  return true;
}
