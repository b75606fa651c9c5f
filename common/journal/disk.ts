/**
 * The file system as journal and publisher see it: passed in, so that a simulation can lose what was not synced, run full and fail.
 * Every function throws, or rejects with, what the file system says.
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
  /** Reads from a position of the file into `into`. @returns how many bytes came; 0 at the end. */
  read(file: number, into: Buffer, position: number): number;
  /** Under how many names a file can be found: 0 once it was deleted. */
  namesOf(file: number): number;
  truncate(file: number, bytes: number): void;
  /** Makes what was written to a file survive a power loss. */
  sync(file: number): Promise<void>;
  /** Makes the names in a folder survive a power loss. */
  syncFolder(folder: string): void;
  /** Makes a folder and its parents. @returns whether it was not there before. */
  makeFolder(folder: string): boolean;
  names(folder: string): string[];
  folders(folder: string): string[];
  /** Bytes of a file; `undefined` if it is not there. */
  bytesOf(path: string): number | undefined;
  removeFile(path: string): void;
  removeEmptyFolder(folder: string): void;
  /** As `names` and `bytesOf`, beside the event loop; nothing for what can't be read. */
  namesLater(folder: string): Promise<string[]>;
  bytesOfLater(path: string): Promise<number>;
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
