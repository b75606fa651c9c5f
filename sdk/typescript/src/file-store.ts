/**
 * Texts in one file, to which changes are appended: `["key","text"]` sets, `[["key", …]]` removes. Whatever is written
 * at one moment is written and synced together. The file is rewritten when most of it is out of date.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { takeLock } from './file-lock.ts';
import type { Store } from './platform.ts';

/** A rewrite costs as much as this many lines. */
const LINES_MIN = 2_000;

export class FileStore implements Store {
  readonly #path: string;
  readonly #texts: Map<string, string>;
  #file: FileHandle | null = null;
  #lines = 0;
  #pending: string[] = [];
  #writing: Promise<void> | null = null;
  readonly #unlock: () => void;
  #closing: Promise<void> | null = null;

  /** @throws if another process has the file open. */
  constructor(path: string) {
    mkdirSync(dirname(path), { recursive: true });
    this.#path = path;
    this.#unlock = takeLock(`${path}.lock`, (pid) => inUse(path, pid));
    try {
      const { texts, lines } = read(path);
      this.#texts = texts;
      this.#lines = lines;
    } catch (error) {
      this.#unlock();
      throw error;
    }
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

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      // The caller that wrote has the error.
      if (this.#writing) await this.#writing.catch(() => undefined);
      if (this.#file) await this.#file.close();
    } finally {
      this.#unlock();
    }
  }

  #append(change: unknown): Promise<void> {
    if (this.#closing) return Promise.reject(new Error(`${this.#path} is closed`));
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
    try {
      await file.write([...this.#texts].map((entry) => `\n${JSON.stringify(entry)}`).join(''));
      await file.datasync();
      await rename(draft, this.#path);
    } catch (error) {
      await file.close();
      throw error;
    }
    const old = this.#file;
    this.#file = file;
    this.#lines = this.#texts.size;
    await old?.close();
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

function inUse(path: string, pid: number): Error {
  const advice = 'Give each process its own queueFile.';
  if (pid === process.pid) return new Error(`${path} is in use by another client of this process. ${advice}`);
  return new Error(
    `${path} is in use by process ${pid}. ${advice} If process ${pid} is another program, delete ${path}.lock.`,
  );
}
