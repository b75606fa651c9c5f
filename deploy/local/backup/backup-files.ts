/**
 * The files of a backup, and their checksums in SHA256SUMS, in the format that `sha256sum --check` reads. A backup holds
 * secrets: only its owner may read it.
 */
import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  type Dirent,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs';
import { appendFile, type FileHandle, lstat, open, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isDeepStrictEqual } from 'node:util';
import { StartupError } from '#deploy/local/child.ts';
import { type BackupFacts, backupFormat, factsFile, provenFactsFile } from './backup-facts.ts';

const checksumsFile = 'SHA256SUMS';
const ownFiles = [checksumsFile, factsFile];
const copiesMax = 8;

type BackupContents = 'links' | 'folders' | 'files' | 'checksums_sha256';

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

/**
 * Copies a folder with its empty folders, which Postgres and ClickHouse need. @param isWanted decides by the path below `from`.
 * @returns the folders below it.
 */
export async function copyFolder(
  from: string,
  to: string,
  isWanted: (path: string, isFile: boolean) => boolean = () => true,
  onCopied?: (file: string, sum: string) => Promise<void>,
): Promise<readonly string[]> {
  const { files, folders } = treeBelow(from);
  const made = folders.filter((path) => isWanted(path, false));
  for (const folder of made) mkdirSync(join(to, folder), { recursive: true, mode: 0o700 });
  await copyFiles(
    from,
    to,
    files.filter((path) => isWanted(path, true)),
    onCopied,
  );
  return made;
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Writes into a backup, with a line in SHA256SUMS for each file. */
export class BackupWriter {
  readonly #folder: string;
  /** Symbolic links and their targets. They are recorded, not copied, so that the backup can be stored anywhere. */
  readonly #links: Record<string, string> = {};
  /** Recorded too, because a tool that copies the backup may omit empty ones. */
  readonly #folders: string[] = [];
  #files = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async addFolder(from: string, to: string, isWanted?: (path: string) => boolean): Promise<void> {
    for (const link of treeBelow(from).links) this.#links[join(to, link)] = readlinkSync(join(from, link));
    const list = (file: string, sum: string) => this.#list(sum, join(to, file));
    const folders = await copyFolder(from, join(this.#folder, to), isWanted, list);
    this.#folders.push(...folders.map((path) => join(to, path)));
  }

  async addFile(from: string, to: string): Promise<void> {
    const sum = await copyFile(from, join(this.#folder, to));
    if (sum !== null) await this.#list(sum, to);
  }

  async addText(text: string, to: string): Promise<void> {
    mkdirSync(dirname(join(this.#folder, to)), { recursive: true, mode: 0o700 });
    await writeFile(join(this.#folder, to), text, { flag: 'wx', mode: 0o600 });
    await this.#list(sha256(text), to);
  }

  /** What backup.json must have, which proves that the backup is complete. Nothing may be added afterwards. */
  async finish(about: Omit<BackupFacts, 'format' | BackupContents>): Promise<Required<BackupFacts>> {
    const facts = { format: backupFormat, ...about, links: this.#links, folders: this.#folders };
    await this.addText(JSON.stringify(facts), provenFactsFile);
    const checksums_sha256 = sha256(readFileSync(join(this.#folder, checksumsFile)));
    return { ...facts, files: this.#files, checksums_sha256 };
  }

  async #list(sum: string, file: string): Promise<void> {
    this.#files++;
    await appendFile(join(this.#folder, checksumsFile), `${sum}  ${file}\n`, { mode: 0o600 });
  }
}

/** Whether a path of a backup is inside it. */
export function isInside(path: string): boolean {
  return path !== '' && !isAbsolute(path) && !path.split(sep).includes('..') && !path.includes('\0');
}

/** The checksum of each file of a backup. */
export interface FileList {
  readonly sums: ReadonlyMap<string, string>;
  /** Why the list may lack files, if nothing proves that it is complete. */
  readonly doubt: string | null;
}

/** Without these, and a file of the other store, not even a backup without a proof can be complete. */
const essentialFile = 'postgres/cluster/global/pg_control';
const essentialFolder = 'clickhouse/store/';
/** ClickHouse finds its database only through it. */
const essentialLink = 'clickhouse/store/metadata/default';

/** Which files the backup has. @throws StartupError if the list is not the one that was written with the backup. */
export function listFiles(folder: string, facts: BackupFacts): FileList {
  const path = join(folder, checksumsFile);
  if (!existsSync(path)) throw new StartupError(`${folder} is not a complete backup: ${path} is missing.`);
  const content = readFileSync(path);
  const lines = content.toString('utf8').split('\n').filter(Boolean);
  const sums = new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
  const isEmpty = !sums.has(essentialFile) || ![...sums.keys()].some((file) => file.startsWith(essentialFolder));
  const isProven = facts.files !== undefined && facts.checksums_sha256 !== undefined;
  if (isEmpty || (isProven && (facts.files !== lines.length || facts.checksums_sha256 !== sha256(content)))) {
    const count = isProven ? `${lines.length} files instead of ${facts.files}` : `only ${lines.length} files`;
    const fault = facts.files === lines.length ? 'has changed' : `lists ${count}`;
    throw new StartupError(`The backup is incomplete: ${path} ${fault}. Nothing was restored.`);
  }
  refuseOtherFacts(folder, sums, facts);
  if (isProven) return { sums, doubt: null };
  const unlisted = treeBelow(folder).files.filter((file) => !sums.has(file)).length - ownFiles.length;
  const more = unlisted > 0 ? ` Its folder has ${unlisted} more, which are not restored.` : '';
  return {
    sums,
    doubt: `an earlier version made this backup, and nothing proves that the ${lines.length} files of ${path} are all of it.${more}`,
  };
}

/** @throws StartupError if backup.json is not the one that was written with the list, or lacks the link without which ClickHouse is empty. */
function refuseOtherFacts(folder: string, sums: FileList['sums'], facts: BackupFacts): void {
  const { files: _, checksums_sha256: __, ...stated } = facts;
  const sum = sums.get(provenFactsFile);
  const isBound = sum !== undefined || facts.format === backupFormat;
  if (isBound && !isDeepStrictEqual(provenFacts(join(folder, provenFactsFile), sum), stated)) {
    throw new StartupError(
      `The backup is damaged: ${join(folder, factsFile)} does not agree with ${provenFactsFile} and ${checksumsFile}. Nothing was restored.`,
    );
  }
  const database = join(dirname(essentialLink), facts.links[essentialLink] ?? '..', sep);
  if (essentialLink in facts.links && [...sums.keys()].some((file) => file.startsWith(database))) return;
  throw new StartupError(
    `The backup is damaged: ${join(folder, factsFile)} has no link ${essentialLink} to files of the backup. Nothing was restored.`,
  );
}

/** Undefined unless the file has this checksum. */
function provenFacts(file: string, sum: string | undefined): unknown {
  if (lstatSync(file, { throwIfNoEntry: false })?.isFile() !== true) return undefined;
  const content = readFileSync(file);
  return sha256(content) === sum ? JSON.parse(content.toString('utf8')) : undefined;
}

/** Reads every listed file of the backup. @throws StartupError that names one that is damaged, missing or outside the backup. */
export async function verifyBackup(folder: string, { sums }: FileList): Promise<void> {
  await forEach([...sums], async ([file, sum]) => {
    if (!isInside(file) || !(await isRegular(folder, file)))
      throw new StartupError(`The backup lists ${file}, which is not a file inside it. Nothing was restored.`);
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
