/**
 * Texts in one file, to which changes are appended: `["key","text"]` sets, `[["key", …]]` removes. Whatever is written
 * at one moment is written and synced together. The file is rewritten when most of it is out of date.
 */
import { closeSync, mkdirSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Store } from './platform.ts';

/** A rewrite costs as much as this many lines. */
const LINES_MIN = 2_000;

const openPaths = new Set<string>();

export class FileStore implements Store {
  readonly #path: string;
  readonly #texts: Map<string, string>;
  #file: FileHandle | null = null;
  #lines = 0;
  #pending: string[] = [];
  #writing: Promise<void> | null = null;
  #closed = false;

  /** @throws if another process has the file open. */
  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true });
    lock(path);
    this.#path = path;
    const { texts, lines } = read(path);
    this.#texts = texts;
    this.#lines = lines;
  }

  get(key: string): string | undefined {
    return this.#texts.get(key);
  }

  keys(): readonly string[] {
    return [...this.#texts.keys()];
  }

  async set(key: string, text: string): Promise<void> {
    const before = this.#texts.get(key);
    this.#texts.set(key, text);
    try {
      await this.#append([key, text]);
    } catch (error) {
      if (before === undefined) this.#texts.delete(key);
      else this.#texts.set(key, before);
      throw error;
    }
  }

  async remove(keys: readonly string[]): Promise<void> {
    const known = keys.filter((key) => this.#texts.delete(key));
    if (known.length > 0) await this.#append([known]);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#writing;
    await this.#file?.close();
    unlock(this.#path);
  }

  #append(change: unknown): Promise<void> {
    if (this.#closed) return Promise.reject(new Error(`${this.#path} is closed`));
    // A line that was cut by a crash ends where the next one begins.
    this.#pending.push(`\n${JSON.stringify(change)}`);
    const before = this.#writing ?? Promise.resolve();
    if (this.#pending.length > 1) return before;
    const written = before.catch(() => undefined).then(() => this.#write());
    this.#writing = written;
    return written;
  }

  async #write(): Promise<void> {
    const lines = this.#pending;
    this.#pending = [];
    if (this.#lines > LINES_MIN && this.#lines > 4 * this.#texts.size) return await this.#rewrite();
    this.#file ??= await open(this.#path, 'a', 0o600);
    await this.#file.write(lines.join(''));
    await this.#file.datasync();
    this.#lines += lines.length;
  }

  async #rewrite(): Promise<void> {
    const draft = `${this.#path}.new`;
    const file = await open(draft, 'w', 0o600);
    this.#lines = this.#texts.size;
    await file.write([...this.#texts].map((entry) => `\n${JSON.stringify(entry)}`).join(''));
    await file.datasync();
    await rename(draft, this.#path);
    await this.#file?.close();
    this.#file = file;
  }
}

function read(path: string): { texts: Map<string, string>; lines: number } {
  const texts = new Map<string, string>();
  let content = '';
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const lines = content.split('\n');
  for (const line of lines) {
    try {
      const [key, text] = JSON.parse(line) as [string | readonly string[], string];
      if (typeof key === 'string') texts.set(key, text);
      else for (const one of key) texts.delete(one);
    } catch {
      // Cut by a crash: it was not confirmed.
    }
  }
  return { texts, lines: lines.length };
}

/** The lock names its process, so that one that was killed does not keep it. */
function lock(path: string): void {
  const inUse = (by: string) => new Error(`${path} is in use by ${by}. Give each process its own queueFile.`);
  if (openPaths.has(path)) throw inUse('another client of this process');
  for (;;) {
    try {
      const file = openSync(`${path}.lock`, 'wx', 0o600);
      writeSync(file, String(process.pid));
      closeSync(file);
      openPaths.add(path);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = Number(readFileSync(`${path}.lock`, 'utf8'));
    if (owner !== process.pid && isAlive(owner)) throw inUse(`process ${owner}`);
    unlinkSync(`${path}.lock`);
  }
}

function unlock(path: string): void {
  openPaths.delete(path);
  unlinkSync(`${path}.lock`);
}

function isAlive(pid: number): boolean {
  if (pid === 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
