/**
 * What a redirector knows of its shares of limited links, in a file that survives the process:
 *
 *   signpost-clicks 1 <boot id> <inode>
 *   h <holder>                                          whose the lines that follow are; the last one is this file's
 *   s <link> <granted> <returned> <used> <max> <day>    all of a share so far
 *   u <link>                                            one more click, written before its visitor is led on
 *
 * The page cache keeps what was written when the process is killed, and nothing is synced before an answer. So the file proves
 * what is unused only to a process of the same boot, in the same file. After a power loss, a reboot, or when it was copied, the rest
 * of every share counts as used, and the file begins a new holder; the old one's lines stay, in case Postgres forgets what it granted.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fdatasync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '#common/clock.ts';
import { DAY_MS, SECOND_MS } from '#common/durations.ts';
import { systemTime } from '#common/time.ts';

export const shareFileLimits = {
  /** The file is written again, without the lines that it no longer needs, at this length and at twice that of the last time. */
  bytesMax: 4_194_304,
  /** Of one holder. Beyond it, the oldest that are used up are forgotten. */
  sharesMax: 50_000,
  /** Of all holders. Beyond it, the oldest holders are forgotten. */
  keptMax: 150_000,
  /** Used-up shares are kept this long: Postgres may be restored from a backup of this age. */
  keptDays: 35,
  retryMs: SECOND_MS,
} as const;

/** Figures only grow. What may be used is granted − returned − used. */
export interface Share {
  granted: number;
  returned: number;
  used: number;
  /** The limit of the link when the last part was granted. */
  max: number;
  /** Of the last line about it, counted from 1970. */
  day: number;
}

export type Shares = Map<string, Share>;

export function leftOf({ granted, returned, used }: Share): number {
  return granted - returned - used;
}

export interface ShareFileOptions {
  readonly path: string;
  readonly clock: Clock;
  /** Identifies the time since the machine started. */
  readonly bootId: string;
}

/** Linux names each boot. Elsewhere no file of an earlier process proves anything. */
export function currentBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return randomBytes(16).toString('hex');
  }
}

export class ShareFile {
  readonly counters = { write_failures: 0, rewrites: 0 };
  readonly holder: string;
  readonly shares: Shares;
  /** Of holders that were replaced, all used. */
  readonly past: ReadonlyMap<string, Shares>;
  readonly #options: ShareFileOptions;
  #file = -1;
  #bytes = 0;
  #rewriteAt = 0;
  #retryMs = 0;

  private constructor(options: ShareFileOptions, books: Map<string, Shares>, holder: string) {
    this.#options = options;
    this.holder = holder;
    this.shares = books.get(holder) ?? new Map();
    books.delete(holder);
    this.past = books;
  }

  /** Reads what the last process left. The folder need not be writable: then no share can be used yet. */
  static open(options: ShareFileOptions): ShareFile {
    const isFound = existsSync(options.path);
    const { books, isProof } = lastWritten(options);
    const last = [...books.keys()].at(-1);
    const holder = isProof && last !== undefined ? last : randomBytes(12).toString('hex');
    for (const [name, shares] of books) if (name !== holder) spend(shares);
    let kept = 0;
    for (const [name, shares] of [...books].reverse()) {
      kept += shares.size;
      if (kept > shareFileLimits.keptMax && name !== holder) books.delete(name);
    }
    const file = new ShareFile(options, books, holder);
    // What half a line may follow is not appended to.
    if (isFound) file.#rewrite();
    return file;
  }

  /** Whether there is a file, or one could be created: a share must have an owner before it is granted. */
  ensure(): boolean {
    if (this.#file === -1) this.#rewrite();
    return this.#file !== -1;
  }

  /** Notes one click. False if that failed: then it must not be led on. The caller counts it in the share. */
  use(link: string): boolean {
    return this.#append(`u ${link}\n`);
  }

  /** Notes all of a share, and keeps it. If that fails, nothing changes. */
  put(link: string, share: Omit<Share, 'day'>): Share | null {
    if (!this.shares.has(link) && !this.#makeRoom()) return null;
    const stored = { ...share, day: this.#today() };
    if (!this.#append(lineOf(link, stored))) return null;
    this.shares.set(link, stored);
    return stored;
  }

  close(): void {
    if (this.#file !== -1) closeSync(this.#file);
    this.#file = -1;
    this.#retryMs = Number.POSITIVE_INFINITY;
  }

  #append(line: string): boolean {
    if (this.#file === -1 || this.#bytes >= this.#rewriteAt) this.#rewrite();
    if (this.#file === -1) return false;
    try {
      if (writeSync(this.#file, line) !== line.length) throw new Error('the disk is full');
      this.#bytes += line.length;
      return true;
    } catch {
      this.#fail();
      return false;
    }
  }

  /** Half a line may be at its end, so nothing is ever added to this file again. */
  #fail(): void {
    this.counters.write_failures++;
    if (this.#file !== -1) closeSync(this.#file);
    this.#file = -1;
    this.#retryMs = systemTime.elapsed() + shareFileLimits.retryMs;
  }

  /** Replaces the file by a new one with what is in memory. After a failure it is tried again at most once a second. */
  #rewrite(): void {
    if (systemTime.elapsed() < this.#retryMs) return;
    const { path, bootId } = this.#options;
    const next = `${path}.new`;
    let file = -1;
    try {
      mkdirSync(dirname(path), { recursive: true });
      rmSync(next, { force: true });
      file = openSync(next, 'ax', 0o600);
      const text = `signpost-clicks 1 ${bootId} ${fstatSync(file).ino}\n${this.#text()}`;
      if (writeSync(file, text) !== text.length) throw new Error('the disk is full');
      renameSync(next, path);
      if (this.#file !== -1) closeSync(this.#file);
      this.#file = file;
      this.#bytes = text.length;
      this.#rewriteAt = Math.max(shareFileLimits.bytesMax, 2 * text.length);
      this.counters.rewrites++;
      // Only a reboot needs it, and does not trust it: a failure changes nothing.
      fdatasync(file, () => undefined);
    } catch {
      if (file !== -1) closeSync(file);
      this.#fail();
    }
  }

  #text(): string {
    const oldest = this.#today() - shareFileLimits.keptDays;
    const lines: string[] = [];
    for (const [holder, shares] of [...this.past, [this.holder, this.shares] as const]) {
      lines.push(`h ${holder}\n`);
      for (const [link, share] of shares) {
        if (share.day < oldest && leftOf(share) === 0) shares.delete(link);
        else lines.push(lineOf(link, share));
      }
      // The name of a past holder without shares is not needed.
      if (shares.size === 0 && holder !== this.holder) lines.pop();
    }
    return lines.join('');
  }

  #makeRoom(): boolean {
    if (this.shares.size < shareFileLimits.sharesMax) return true;
    for (const [link, share] of this.shares) {
      if (leftOf(share) > 0) continue;
      this.shares.delete(link);
      return true;
    }
    return false;
  }

  #today(): number {
    return Math.floor(this.#options.clock() / DAY_MS);
  }
}

function lineOf(link: string, { granted, returned, used, max, day }: Share): string {
  return `s ${link} ${granted} ${returned} ${used} ${max} ${day}\n`;
}

function spend(shares: Shares): void {
  for (const share of shares.values()) share.used = share.granted - share.returned;
}

interface Written {
  readonly books: Map<string, Shares>;
  /** Whether it proves what is unused: every line is whole, and it is the file that this boot wrote. */
  readonly isProof: boolean;
}

function lastWritten({ path, bootId }: ShareFileOptions): Written {
  try {
    return parsed(path, bootId);
  } catch {
    // One that cannot be read proves nothing.
    return { books: new Map(), isProof: false };
  }
}

function parsed(path: string, bootId: string): Written {
  const file = openSync(path, 'r');
  try {
    const lines = readFileSync(file, 'utf8').split('\n');
    // Half a line at the end was not answered; a whole one ends with a line break.
    lines.pop();
    const books = new Map<string, Shares>();
    let isProof = lines[0] === `signpost-clicks 1 ${bootId} ${fstatSync(file).ino}`;
    let shares: Shares | undefined;
    for (const line of lines.slice(1)) {
      const [kind, name = '', ...figures] = line.split(' ');
      const share = shares?.get(name);
      if (kind === 'h' && name !== '') {
        shares = books.get(name) ?? new Map();
        books.set(name, shares);
      } else if (kind === 'u' && share !== undefined) share.used++;
      else if (
        kind === 's' &&
        shares !== undefined &&
        figures.length === 5 &&
        figures.every((one) => /^\d+$/.test(one))
      ) {
        const [granted = 0, returned = 0, used = 0, max = 0, day = 0] = figures.map(Number);
        shares.set(name, { granted, returned, used, max, day });
      } else isProof = false;
    }
    return { books, isProof };
  } finally {
    closeSync(file);
  }
}
