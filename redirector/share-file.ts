/**
 * A redirector's shares of limited links, in a file that survives the process:
 *
 *   signpost-clicks 1 <boot id> <inode>
 *   h <holder>                                          holder of the lines that follow; the last one is this file's
 *   s <link> <granted> <returned> <used> <max> <day>    the whole state of a share
 *   u <link>                                            one more click, written before its visitor is redirected
 *
 * If the process is killed, the page cache keeps what was written; nothing is synced before an answer. So the file
 * proves which clicks are unused only to a process of the same boot, with the same file. After a power loss, a reboot,
 * or if the file was copied, the rest of every share counts as used, and a new holder begins. The old holder's lines
 * stay, in case Postgres loses its grants.
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
  /**
   * The file is rewritten without obsolete lines when it reaches this length and twice its length after the last
   * rewrite.
   */
  bytesMax: 4_194_304,
  /** Maximum shares of one holder. Beyond it, the oldest used-up shares are dropped. */
  sharesMax: 50_000,
  /** Maximum shares of all holders. Beyond it, the oldest holders are dropped. */
  keptMax: 150_000,
  /** Used-up shares are kept this long, because Postgres may be restored from a backup of this age. */
  keptDays: 35,
  retryMs: SECOND_MS,
} as const;

/** The figures only grow. granted − returned − used clicks are left. */
export interface Share {
  granted: number;
  returned: number;
  used: number;
  /** The limit of the link when the last clicks were granted. */
  max: number;
  /** The day of the last line about the share, counted from 1970. */
  day: number;
}

export type Shares = Map<string, Share>;

export function leftOf({ granted, returned, used }: Share): number {
  return granted - returned - used;
}

export interface ShareFileOptions {
  readonly path: string;
  readonly clock: Clock;
  /** Identifies the current boot of the machine. */
  readonly bootId: string;
}

/** Linux identifies each boot. On other systems, no file of an earlier process proves anything. */
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
  /** Shares of previous holders, all used. */
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

  /** Reads the file of the last process. The folder need not be writable, but then no share can be used. */
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
    // The file may end with an incomplete line, so it is rewritten instead of appended to.
    if (isFound) file.#rewrite();
    return file;
  }

  /** Whether there is a file, or one could be created: shares may be granted only if they can be recorded. */
  ensure(): boolean {
    if (this.#file === -1) this.#rewrite();
    return this.#file !== -1;
  }

  /**
   * Records one click. If it returns false, the visitor must not be redirected. The caller counts the click in the
   * share.
   */
  use(link: string): boolean {
    return this.#append(`u ${link}\n`);
  }

  /** Records the whole state of a share. If that fails, nothing changes. */
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

  /** The file may now end with an incomplete line, so nothing is appended to it any more. */
  #fail(): void {
    this.counters.write_failures++;
    if (this.#file !== -1) closeSync(this.#file);
    this.#file = -1;
    this.#retryMs = systemTime.elapsed() + shareFileLimits.retryMs;
  }

  /** Replaces the file by a new one with the state in memory. After a failure, it is retried at most once a second. */
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
      // Only useful after a reboot, when the file proves nothing anyway, so a failure does not matter.
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
      // The name of a previous holder without shares is not needed.
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
  /** Whether it proves which clicks are unused: every line is complete, and this boot wrote this file. */
  readonly isProof: boolean;
}

function lastWritten({ path, bootId }: ShareFileOptions): Written {
  try {
    return parsed(path, bootId);
  } catch {
    // An unreadable file proves nothing.
    return { books: new Map(), isProof: false };
  }
}

function parsed(path: string, bootId: string): Written {
  const file = openSync(path, 'r');
  try {
    const lines = readFileSync(file, 'utf8').split('\n');
    // An incomplete line at the end was not answered; a complete one ends with a line break.
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
