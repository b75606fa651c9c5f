/**
 * The file system as the journal and publisher use it: injected, so that a simulation can lose unsynced data, fill up
 * and fail. Every function throws, or rejects with, the file system's error.
 */
import {
  closeSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { promisify } from 'node:util';

export interface Disk {
  /** Creates a file to append to and read from. It must not exist. */
  create(path: string): number;
  openToRead(path: string): number;
  close(file: number): void;
  /** Appends from `bytes` at an offset. @returns how many bytes were written, which can be fewer. */
  write(file: number, bytes: Buffer, at: number): number;
  /** Reads from a position of the file into `into`. @returns how many bytes were read; 0 at the end. */
  read(file: number, into: Buffer, position: number): number;
  /** How many names a file has: 0 once it was deleted. */
  namesOf(file: number): number;
  truncate(file: number, bytes: number): void;
  /** Makes what was written to a file survive a power loss. */
  sync(file: number): Promise<void>;
  /** Makes the names in a folder survive a power loss. */
  syncFolder(folder: string): void;
  /** Creates a folder and its parents. @returns whether it is new. */
  makeFolder(folder: string): boolean;
  names(folder: string): string[];
  folders(folder: string): string[];
  /** Bytes of a file; `undefined` if it does not exist. */
  bytesOf(path: string): number | undefined;
  removeFile(path: string): void;
  removeEmptyFolder(folder: string): void;
  /** Asynchronous versions of `names` and `bytesOf`; nothing for what can't be read. */
  namesLater(folder: string): Promise<string[]>;
  bytesOfLater(path: string): Promise<number>;
}

/** Whether a file or folder does not exist. Any other error says nothing about that, and may pass. */
export function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

export const nodeDisk: Disk = {
  create: (path) => openSync(path, 'ax+', 0o600),
  openToRead: (path) => openSync(path, 'r'),
  close: closeSync,
  write: (file, bytes, at) => writeSync(file, bytes, at, bytes.length - at),
  read: (file, into, position) => readSync(file, into, 0, into.length, position),
  namesOf: (file) => fstatSync(file).nlink,
  truncate: ftruncateSync,
  sync: promisify(fdatasync),
  syncFolder(folder) {
    const file = openSync(folder, 'r');
    try {
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  },
  makeFolder: (folder) => mkdirSync(folder, { recursive: true }) !== undefined,
  names: (folder) => readdirSync(folder),
  folders: (folder) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name),
  bytesOf: (path) => statSync(path, { throwIfNoEntry: false })?.size,
  removeFile: (path) => rmSync(path, { force: true }),
  removeEmptyFolder: rmdirSync,
  namesLater: (folder) => readdir(folder).catch(() => []),
  bytesOfLater: async (path) => (await stat(path).catch(() => undefined))?.size ?? 0,
};
