/**
 * A redirector's shares of limited links, in a file that survives the process:
 *
 *   signpost-clicks 1 <boot id> <inode>
 *   h <holder>
 *   s <link> <granted> <returned> <used> <max>          the whole state of a share
 *   u <link>                                            one more click, written before its visitor is redirected
 *
 * If the process is killed, the page cache keeps what was written; nothing is synced before an answer. So the file
 * proves which clicks are unused only to a process of the same boot, with the same file. After a power loss, a reboot,
 * or if the file was copied, a new holder begins, and Postgres counts what the old one held as used.
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
import { SECOND_MS } from '#common/durations.ts';
import { systemTime } from '#common/time.ts';

export const shareFileLimits = {
  /**
   * The file is rewritten without obsolete lines when it reaches this length and twice its length after the last
   * rewrite.
   */
  bytesMax: 4_194_304,
  /** Maximum shares that are open, or used up and not reported yet. Beyond it, none is added. */
  sharesMax: 50_000,
  retryMs: SECOND_MS,
} as const;

/** The figures only grow. granted − returned − used clicks are left. */
export interface Share {
  granted: number;
  returned: number;
  used: number;
  /** The limit of the link when the last clicks were granted. */
  max: number;
}

export type Shares = Map<string, Share>;

export function leftOf({ granted, returned, used }: Share): number {
  return granted - returned - used;
}

export interface ShareFileOptions {
  readonly path: string;
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
  readonly #options: ShareFileOptions;
  #file = -1;
  #bytes = 0;
  #rewriteAt = 0;
  #retryMs = 0;

  private constructor(options: ShareFileOptions, { holder, shares }: Written) {
    this.#options = options;
    this.holder = holder;
    this.shares = shares;
  }

  /** Reads the file of the last process. The folder need not be writable, but then no share can be used. */
  static open(options: ShareFileOptions): ShareFile {
    const isFound = existsSync(options.path);
    const fresh = { holder: randomBytes(12).toString('hex'), shares: new Map() };
    const file = new ShareFile(options, lastWritten(options) ?? fresh);
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
  put(link: string, share: Share): Share | null {
    if (!this.shares.has(link) && this.shares.size >= shareFileLimits.sharesMax) return null;
    if (!this.#append(lineOf(link, share))) return null;
    this.shares.set(link, share);
    return share;
  }

  /** Drops a share of which Postgres knows that it is used up. Its lines go with the next rewrite. */
  forget(link: string): void {
    this.shares.delete(link);
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
    const lines = [...this.shares].map(([link, share]) => lineOf(link, share));
    let file = -1;
    try {
      mkdirSync(dirname(path), { recursive: true });
      rmSync(next, { force: true });
      file = openSync(next, 'ax', 0o600);
      const text = `signpost-clicks 1 ${bootId} ${fstatSync(file).ino}\nh ${this.holder}\n${lines.join('')}`;
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
}

function lineOf(link: string, { granted, returned, used, max }: Share): string {
  return `s ${link} ${granted} ${returned} ${used} ${max}\n`;
}

interface Written {
  readonly holder: string;
  readonly shares: Shares;
}

/** Null unless the file proves which clicks are unused: every line is complete, and this boot wrote this file. */
function lastWritten({ path, bootId }: ShareFileOptions): Written | null {
  let file = -1;
  try {
    file = openSync(path, 'r');
    const [header, ...lines] = readFileSync(file, 'utf8').split('\n');
    if (header !== `signpost-clicks 1 ${bootId} ${fstatSync(file).ino}`) return null;
    // An incomplete line at the end was not answered; a complete one ends with a line break.
    lines.pop();
    return parsed(lines);
  } catch {
    // An unreadable file proves nothing.
    return null;
  } finally {
    if (file !== -1) closeSync(file);
  }
}

function parsed(lines: readonly string[]): Written | null {
  let holder = '';
  const shares: Shares = new Map();
  for (const line of lines) {
    const [kind, name = '', ...figures] = line.split(' ');
    const share = shares.get(name);
    if (kind === 'h' && name !== '') {
      // Earlier versions also wrote the shares of earlier holders, and a day as a fifth figure.
      holder = name;
      shares.clear();
    } else if (kind === 'u' && share !== undefined) share.used++;
    else if (kind === 's' && [4, 5].includes(figures.length) && figures.every((one) => /^\d+$/.test(one))) {
      const [granted = 0, returned = 0, used = 0, max = 0] = figures.map(Number);
      shares.set(name, { granted, returned, used, max });
    } else return null;
  }
  return holder === '' ? null : { holder, shares };
}
