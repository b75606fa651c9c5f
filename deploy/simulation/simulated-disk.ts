/**
 * The disk of a simulated machine. What a program writes survives its death. What it has synced survives a power loss;
 * of the rest, a part may survive, or zeros in its place, or nothing. A file name survives once its folder was synced,
 * and a removed one may reappear until then.
 */
import { basename, dirname } from 'node:path';
import type { Disk } from '#common/journal/disk.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import { Killed, type Program } from './program.ts';
import type { Scheduler } from './scheduler.ts';
import { SimulatedFile, SimulatedFolder } from './simulated-files.ts';

/** The current faults of a disk. Probabilities are per call. */
export interface DiskFaults {
  /** Capacity of the disk. */
  bytesMax: number;
  writeFails: number;
  syncFails: number;
  /** Maximum milliseconds of a sync. */
  syncMsMax: number;
  /** The program dies in the middle of a write. */
  killedInWrite: number;
}

export function noDiskFaults(): DiskFaults {
  return { bytesMax: Number.POSITIVE_INFINITY, writeFails: 0, syncFails: 0, syncMsMax: 4, killedInWrite: 0 };
}

export const dataFolder = '/data';
/** Time after the end of a fault in which everything that it delayed is completed. */
const calmMs = 1_000;
/** The operating system writes back data that is older than this. */
const writtenBackMs = 30_000;

function isHarmless({ writeFails, syncFails, syncMsMax }: DiskFaults): boolean {
  return writeFails === 0 && syncFails === 0 && syncMsMax === noDiskFaults().syncMsMax;
}

type Entry = SimulatedFile | SimulatedFolder;

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

interface OpenFile {
  readonly file: SimulatedFile;
  readonly path: string;
}

export class SimulatedDisk {
  /** How often each of its faults hit. */
  readonly hits = { write_failed: 0, disk_full: 0, sync_failed: 0, killed_in_write: 0, power_lost: 0 };
  readonly #scheduler: Scheduler;
  readonly #random: SeededRandom;
  #faults = noDiskFaults();
  #hinderedFrom = 0;
  #hinderedTo = Number.NEGATIVE_INFINITY;
  /** When the last sync ends: a slow one continues after its fault has ended. */
  #syncsEndAt = 0;
  #root = new SimulatedFolder();
  #open = new Map<number, OpenFile>();
  #nextFile = 3;
  #bytes = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#random = scheduler.random;
    this.#begin();
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Paths of all files in or below a folder. */
  filesIn(folder: string): string[] {
    const found: string[] = [];
    const walk = (path: string, entry: Entry | undefined) => {
      if (entry instanceof SimulatedFile) found.push(path);
      else for (const [name, below] of entry?.entries ?? []) walk(`${path}/${name}`, below);
    };
    walk(folder, this.#find(folder));
    return found;
  }

  /** The bytes of a file, to be changed by a fault. */
  contentOf(path: string): Buffer {
    const file = this.#fileAt(path);
    return file === undefined ? Buffer.alloc(0) : file.bytes.subarray(0, file.length);
  }

  /** Loses the power, and with it what was not synced. */
  losePower(): void {
    this.hits.power_lost++;
    this.#open = new Map();
    this.#loseIn(this.#root);
    this.#countBytes();
  }

  #countBytes(): void {
    this.#bytes = 0;
    for (const path of this.filesIn('')) this.#bytes += this.#fileAt(path)?.length ?? 0;
  }

  /** @returns a function that restores the disk to its present state. */
  snapshot(): () => void {
    const kept = this.#root.copy();
    return () => {
      this.#open = new Map();
      this.#root = kept.copy();
      this.#countBytes();
    };
  }

  /** Loses all data. */
  wipe(): void {
    this.#open = new Map();
    this.#root = new SimulatedFolder();
    this.#bytes = 0;
    this.#begin();
  }

  /** Creates the data folder as if it had existed for long. */
  #begin(): void {
    this.#makeFolder(dataFolder);
    this.#root.sync();
  }

  setFaults(faults: DiskFaults): void {
    const { now } = this.#scheduler;
    if (now > this.#hinderedTo + calmMs) this.#hinderedFrom = now;
    this.#hinderedTo = isHarmless(faults) ? Math.max(now, this.#syncsEndAt) : Number.POSITIVE_INFINITY;
    this.#faults = faults;
  }

  /** Since when syncs have failed or been slow; `now` if they are not and have not been recently. */
  hinderedSince(now: number): number {
    return now <= this.#hinderedTo + calmMs ? this.#hinderedFrom : now;
  }

  /** This disk as one program sees it. */
  of(program: Program): Disk {
    const alive =
      <A extends unknown[], R>(call: (...args: A) => R) =>
      (...args: A): R => {
        program.ensureAlive();
        return call(...args);
      };
    const later = <R>(call: () => R): Promise<R> => this.#later(program, 1, call);
    const note = (line: string) => program.scheduler.note(() => `${program.name} ${line}`);
    return {
      create: alive((path) => {
        note(`creates ${path}`);
        return this.#create(path);
      }),
      openToRead: alive((path) => this.#openToRead(path)),
      close: alive((file) => void this.#open.delete(file)),
      write: alive((file, bytes, at) => this.#write(program, file, bytes, at)),
      read: alive((file, into, position) => this.#read(file, into, position)),
      namesOf: alive((file) => this.#opened(file).file.links),
      truncate: alive((file, bytes) => this.#truncate(this.#opened(file).file, bytes)),
      sync: (file) => this.#sync(program, file),
      syncFolder: alive((folder) => this.#syncFolder(folder)),
      makeFolder: alive((folder) => this.#makeFolder(folder)),
      names: alive((folder) => [...this.#folder(folder).entries.keys()]),
      folders: alive((folder) =>
        [...this.#folder(folder).entries].filter(([, one]) => one instanceof SimulatedFolder).map(([name]) => name),
      ),
      bytesOf: alive((path) => this.#fileAt(path)?.length),
      removeFile: alive((path) => {
        note(`removes ${path}`);
        this.#removeFile(path);
      }),
      removeEmptyFolder: alive((folder) => this.#removeEmptyFolder(folder)),
      namesLater: (folder) => later(() => [...(this.#folderAt(folder)?.entries.keys() ?? [])]),
      bytesOfLater: (path) => later(() => this.#fileAt(path)?.length ?? 0),
    };
  }

  #later<R>(program: Program, msMax: number, call: () => R): Promise<R> {
    return new Promise((done, fail) => {
      program.scheduler.after(this.#random.next() * msMax, () =>
        program.enter(() => {
          try {
            done(call());
          } catch (error) {
            fail(error);
          }
        }),
      );
    });
  }

  #loseIn(folder: SimulatedFolder): void {
    folder.lose(this.#random.between(0, folder.changes.length));
    for (const entry of folder.entries.values()) {
      if (entry instanceof SimulatedFolder) this.#loseIn(entry);
      else this.#loseTail(entry);
    }
  }

  #loseTail(file: SimulatedFile): void {
    if (!file.isBroken && file.writtenAt < this.#scheduler.now - writtenBackMs) file.syncedLength = file.length;
    const left = this.#random.between(file.syncedLength, file.length);
    const isZeros = this.#random.next() < 0.2;
    if (isZeros) file.bytes.fill(0, left, file.length);
    else file.length = left;
    file.syncedLength = file.length;
    file.isBroken = false;
    file.links = 1;
  }

  #find(path: string): Entry | undefined {
    let at: Entry | undefined = this.#root;
    for (const name of path.split('/')) {
      if (name === '') continue;
      at = at instanceof SimulatedFolder ? at.entries.get(name) : undefined;
    }
    return at;
  }

  #fileAt(path: string): SimulatedFile | undefined {
    const found = this.#find(path);
    return found instanceof SimulatedFile ? found : undefined;
  }

  #folderAt(path: string): SimulatedFolder | undefined {
    const found = this.#find(path);
    return found instanceof SimulatedFolder ? found : undefined;
  }

  #folder(path: string): SimulatedFolder {
    const found = this.#folderAt(path);
    if (found === undefined) throw failure('ENOENT', path);
    return found;
  }

  #opened(file: number): OpenFile {
    const open = this.#open.get(file);
    if (open === undefined) throw failure('EBADF', String(file));
    return open;
  }

  #create(path: string): number {
    const folder = this.#folder(dirname(path));
    if (folder.entries.has(basename(path))) throw failure('EEXIST', path);
    if (this.#bytes >= this.#faults.bytesMax) {
      this.hits.disk_full++;
      throw failure('ENOSPC', path);
    }
    const file = new SimulatedFile();
    folder.set(basename(path), file);
    this.#open.set(this.#nextFile, { file, path });
    return this.#nextFile++;
  }

  #openToRead(path: string): number {
    const file = this.#fileAt(path);
    if (file === undefined) throw failure('ENOENT', path);
    this.#open.set(this.#nextFile, { file, path });
    return this.#nextFile++;
  }

  #write(program: Program, to: number, bytes: Buffer, at: number): number {
    const { file, path } = this.#opened(to);
    let count = bytes.length - at;
    const { writeFails, killedInWrite, bytesMax } = this.#faults;
    if (writeFails > 0 && this.#random.next() < writeFails) {
      this.hits.write_failed++;
      // A part may have been written before the write failed.
      this.#append(file, bytes.subarray(at, at + this.#random.between(0, count)));
      throw failure('EIO', path);
    }
    if (killedInWrite > 0 && this.#random.next() < killedInWrite) {
      this.hits.killed_in_write++;
      this.#append(file, bytes.subarray(at, at + this.#random.between(0, count)));
      program.kill();
      throw new Killed();
    }
    if (this.#bytes + count > bytesMax) {
      this.hits.disk_full++;
      count = Math.max(0, bytesMax - this.#bytes);
      if (count === 0) throw failure('ENOSPC', path);
    }
    this.#append(file, bytes.subarray(at, at + count));
    return count;
  }

  #append(file: SimulatedFile, bytes: Buffer): void {
    const end = file.length + bytes.length;
    if (end > file.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * file.bytes.length, end));
      file.bytes.copy(larger, 0, 0, file.length);
      file.bytes = larger;
    }
    bytes.copy(file.bytes, file.length);
    file.length = end;
    file.writtenAt = this.#scheduler.now;
    if (file.links > 0) this.#bytes += bytes.length;
  }

  #read(from: number, into: Buffer, position: number): number {
    const { file } = this.#opened(from);
    if (position >= file.length) return 0;
    return file.bytes.copy(into, 0, position, file.length);
  }

  #truncate(file: SimulatedFile, bytes: number): void {
    if (bytes >= file.length) return;
    this.#bytes -= file.links > 0 ? file.length - bytes : 0;
    file.length = bytes;
    file.syncedLength = Math.min(file.syncedLength, bytes);
  }

  #sync(program: Program, which: number): Promise<void> {
    program.ensureAlive();
    const { file, path } = this.#opened(which);
    const { length } = file;
    const fails = this.#faults.syncFails > 0 && this.#random.next() < this.#faults.syncFails;
    const ms = this.#random.next() * this.#faults.syncMsMax;
    this.#syncsEndAt = Math.max(this.#syncsEndAt, program.scheduler.now + ms);
    return new Promise((done, fail) => {
      program.scheduler.after(ms, () => {
        if (program.isDead) return;
        if (fails) {
          this.hits.sync_failed++;
          file.isBroken = true;
          program.enter(() => fail(failure('EIO', path)));
          return;
        }
        if (!file.isBroken) file.syncedLength = Math.max(file.syncedLength, Math.min(length, file.length));
        program.enter(() => done());
      });
    });
  }

  #syncFolder(path: string): void {
    const folder = this.#folder(path);
    if (this.#faults.writeFails > 0 && this.#random.next() < this.#faults.writeFails) {
      this.hits.sync_failed++;
      throw failure('EIO', path);
    }
    folder.sync();
  }

  #makeFolder(path: string): boolean {
    let at = this.#root;
    let isNew = false;
    for (const name of path.split('/')) {
      if (name === '') continue;
      let next = at.entries.get(name);
      if (next === undefined) {
        next = new SimulatedFolder();
        at.set(name, next);
        isNew = true;
      }
      if (next instanceof SimulatedFile) throw failure('EEXIST', path);
      at = next;
    }
    return isNew;
  }

  #removeFile(path: string): void {
    const folder = this.#folderAt(dirname(path));
    const file = folder?.entries.get(basename(path));
    if (!(file instanceof SimulatedFile)) return;
    folder?.delete(basename(path));
    file.links = 0;
    this.#bytes -= file.length;
  }

  #removeEmptyFolder(path: string): void {
    const folder = this.#folder(path);
    if (folder.entries.size > 0) throw failure('ENOTEMPTY', path);
    this.#folder(dirname(path)).delete(basename(path));
  }
}
