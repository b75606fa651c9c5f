/**
 * Disk cache for outages of both Redis and Postgres: the latest link snapshots of this machine's redirectors. A link
 * that one process served is available to the others and to restarted processes.
 *
 *   <folder>/<instance>.links        lines of `epoch ms, tab, key, tab, snapshot as JSON (empty: it changed), newline`
 *   <folder>/<instance>.old.links    the previous file, until the next one is full
 *
 * Written in batches after the answers; a lost line only means that a link is unknown in an outage. Read only in an
 * outage: the first lookup indexes every file, later ones continue from there. The newest line of a key counts, so link
 * changes received by one process apply to all of them.
 */
import { appendFile, mkdir, open, readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { BoundedMap } from '#common/bounded-map.ts';
import type { Clock } from '#common/clock.ts';
import type { LinkDiskCache } from '#common/links/link-cache.ts';

export const diskCacheLimits = {
  fileBytesMax: 33_554_432,
  /** An unchanged snapshot is written again after this long … */
  repeatMs: 600_000,
  /** … and a line is trusted for this long. */
  lineMsMax: 10_800_000,
  flushMs: 100,
  pendingCharsMax: 4_194_304,
  rescanMs: 250,
  indexMs: 600_000,
  indexEntriesMax: 500_000,
  writtenEntriesMax: 500_000,
} as const;

const suffix = '.links';

interface Place {
  readonly ino: number;
  readonly offset: number;
  readonly length: number;
  readonly ms: number;
}

export class DiskCache implements LinkDiskCache {
  readonly counters = { lines: 0, dropped: 0, write_failures: 0 };
  readonly #folder: string;
  readonly #file: string;
  readonly #clock: Clock;
  readonly #written = new BoundedMap<{ bytes: number; isUsed: boolean; crc: number; ms: number }>(
    diskCacheLimits.writtenEntriesMax,
    Number.POSITIVE_INFINITY,
  );
  #pending = '';
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #index = new Map<string, Place>();
  /** How far each file has been indexed, by inode: a file keeps it when it is renamed. */
  #read = new Map<number, number>();
  #files = new Map<number, string>();
  #forgetting: NodeJS.Timeout | undefined;
  #scanning: Promise<void> | undefined;
  #scannedMs = Number.NEGATIVE_INFINITY;

  constructor(folder: string, instance: string, clock: Clock) {
    this.#folder = folder;
    this.#file = join(folder, instance + suffix);
    this.#clock = clock;
  }

  /**
   * A missing snapshot (null) of a key that this process never wrote is not written: a scan of unknown keys would fill
   * the file.
   */
  put(key: string, text: string | null): void {
    const nowMs = this.#clock();
    const crc = text === null ? 0 : crc32(text);
    const last = this.#written.get(key);
    if (last === undefined ? text === null : last.crc === crc && nowMs - last.ms < diskCacheLimits.repeatMs) return;
    this.#write(key, text ?? '', crc, nowMs);
  }

  /**
   * Always written, whatever this process wrote for the key: the outdated line may be from before a restart, or from
   * another process.
   */
  changed(key: string): void {
    this.#write(key, '', 0, this.#clock());
  }

  async find(key: string): Promise<string | undefined> {
    if (this.#clock() - this.#scannedMs > diskCacheLimits.rescanMs) {
      this.#scanning ??= this.#scan().finally(() => {
        this.#scanning = undefined;
      });
    }
    await this.#scanning;
    this.#forgetting ??= setTimeout(() => this.#forget(), diskCacheLimits.indexMs).unref();
    const place = this.#index.get(key);
    if (place === undefined || place.length === 0 || this.#clock() - place.ms > diskCacheLimits.lineMsMax)
      return undefined;
    // Recently received changes may not be in the file or in the index yet.
    const own = this.#written.peek(key);
    if (own !== undefined && own.crc === 0 && own.ms >= place.ms) return undefined;
    const line = await this.#readAt(place);
    // The file may have been replaced since, so the key in the line is checked.
    return line.startsWith(`${place.ms}\t${key}\t`) ? line.slice(line.lastIndexOf('\t') + 1) : undefined;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    clearTimeout(this.#forgetting);
    this.#flush();
    await this.#flushing;
  }

  #write(key: string, text: string, crc: number, ms: number): void {
    this.#written.set(key, { bytes: 0, isUsed: false, crc, ms });
    this.#add(`${ms}\t${key}\t${text}\n`);
  }

  #add(line: string): void {
    if (this.#pending.length + line.length > diskCacheLimits.pendingCharsMax) {
      this.counters.dropped++;
      return;
    }
    this.#pending += line;
    this.counters.lines++;
    this.#timer ??= setTimeout(() => this.#flush(), diskCacheLimits.flushMs).unref();
  }

  #flush(): void {
    this.#timer = undefined;
    const text = this.#pending;
    this.#pending = '';
    if (text === '') return;
    this.#flushing = this.#flushing.then(() => this.#append(text)).catch(() => void this.counters.write_failures++);
  }

  async #append(text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    const bytes = (await stat(this.#file).catch(() => undefined))?.size ?? 0;
    if (bytes > diskCacheLimits.fileBytesMax) {
      await rename(this.#file, this.#file.replace(/\.links$/, `.old${suffix}`));
      // Entries that are only in the older file are written again at their next lookup.
    }
    await appendFile(this.#file, text, { mode: 0o600 });
  }

  /** Drops the index, which serves one outage; it is rebuilt if needed. */
  #forget(): void {
    this.#forgetting = undefined;
    this.#index = new Map();
    this.#read = new Map();
    this.#files = new Map();
    this.#scannedMs = Number.NEGATIVE_INFINITY;
  }

  async #scan(): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      if (name.endsWith(suffix)) await this.#scanFile(join(this.#folder, name)).catch(() => undefined);
    }
    this.#scannedMs = this.#clock();
  }

  async #scanFile(file: string): Promise<void> {
    const handle = await open(file);
    try {
      const { ino } = await handle.stat();
      this.#files.set(ino, file);
      let offset = this.#read.get(ino) ?? 0;
      const chunk = Buffer.allocUnsafe(1_048_576);
      for (;;) {
        const { bytesRead } = await handle.read(chunk, 0, chunk.length, offset);
        const used = this.#indexLines(ino, chunk.subarray(0, bytesRead), offset);
        if (used === 0) break;
        offset += used;
      }
      this.#read.set(ino, offset);
    } finally {
      await handle.close();
    }
  }

  /** @returns the length of the complete lines in the chunk. */
  #indexLines(ino: number, chunk: Buffer, offset: number): number {
    let at = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, at)) {
      const tab = chunk.indexOf(9, at);
      const second = chunk.indexOf(9, tab + 1);
      if (tab !== -1 && second !== -1 && second < end) {
        const ms = Number(chunk.toString('latin1', at, tab));
        const key = chunk.toString('utf8', tab + 1, second);
        const known = this.#index.get(key);
        const isRoom = known !== undefined || this.#index.size < diskCacheLimits.indexEntriesMax;
        if (isRoom && (known === undefined || ms >= known.ms)) {
          this.#index.set(key, { ino, offset: offset + at, length: second + 1 === end ? 0 : end - at, ms });
        }
      }
      at = end + 1;
    }
    return at;
  }

  async #readAt(place: Place): Promise<string> {
    const handle = await open(this.#files.get(place.ino) ?? '').catch(() => undefined);
    if (handle === undefined) return '';
    try {
      const bytes = Buffer.allocUnsafe(place.length);
      await handle.read(bytes, 0, place.length, place.offset);
      return bytes.toString();
    } finally {
      await handle.close();
    }
  }
}
