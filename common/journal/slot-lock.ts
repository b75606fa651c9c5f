/**
 * A lock on a folder that ends with its process, however the process ends: a listening Unix socket in the folder.
 *
 * An accepted connection means that the lock is held; a refused one means that the holder is gone. Nothing else is
 * evidence: a socket can be deleted while held (`missing`), and the checking process can lack file descriptors or
 * rights (`unknown`). So the socket of a released lock stays and refuses connections, and a live holder recreates a
 * deleted socket.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, lstatSync, openSync, rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join, relative } from 'node:path';
import { sleep, type Time } from '#common/time.ts';
import { isAbsent } from './disk.ts';

const lockName = '.lock';
/** A socket's path is a field of 108 bytes on Linux and 104 on macOS. */
const socketPathMax = 100;
const triesMax = 5;
const retryMs = 100;
/** A process that is still about to delete a dead lock after this time has died while doing so. */
const removalMsMax = 2_000;

export type LockState = 'held' | 'free' | 'missing' | 'unknown';

/** A lock that this process holds. */
export interface HeldLock {
  /** Restores the socket if it was deleted. @returns false if another process holds the folder now. */
  renew(): Promise<boolean>;
  release(): Promise<void>;
}

/** Locks on folders, as the journal and publisher use them. */
export interface SlotLocks {
  /** Takes the lock of a folder, which must exist. @returns `undefined` while another process holds it. */
  take(folder: string): Promise<HeldLock | undefined>;
  /** A process that is stopped still holds its lock. */
  stateOf(folder: string): Promise<LockState>;
}

/** Takes the lock of a folder, within a time if another process has it. @returns `undefined` if that still has it then. */
export async function lockWithin(
  { locks, time }: { readonly locks: SlotLocks; readonly time: Time },
  folder: string,
  waitMs: number,
): Promise<HeldLock | undefined> {
  for (const endMs = time.elapsed() + waitMs; ; await sleep(time, retryMs)) {
    const lock = await locks.take(folder);
    if (lock !== undefined || time.elapsed() >= endMs) return lock;
  }
}

export const socketLocks: SlotLocks = { take: (folder) => SlotLock.take(folder), stateOf };

/**
 * Calls back with a path to a name in the folder that is short enough for a socket, valid until the call ends. @throws
 * Error if there is none.
 */
async function withShortPath<T>(folder: string, name: string, use: (path: string) => Promise<T>): Promise<T> {
  const direct = join(folder, name);
  for (const path of [direct, relative(process.cwd(), direct)]) {
    if (Buffer.byteLength(path) <= socketPathMax) return await use(path);
  }
  if (process.platform !== 'linux') {
    throw new Error(`The path ${direct} is too long for a lock (${socketPathMax} bytes): choose a shorter DATA_DIR.`);
  }
  const file = openSync(folder, 'r');
  try {
    return await use(`/proc/self/fd/${file}/${name}`);
  } finally {
    closeSync(file);
  }
}

/** Whether a living process holds the folder. */
async function stateOf(folder: string, name = lockName): Promise<LockState> {
  try {
    return await withShortPath(folder, name, connectTo);
  } catch (error) {
    return isAbsent(error) ? 'missing' : 'unknown';
  }
}

function connectTo(path: string): Promise<LockState> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      done('held');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') done('free');
      else done(isAbsent(error) ? 'missing' : 'unknown');
    });
  });
}

export class SlotLock implements HeldLock {
  readonly #folder: string;
  #server: Server;
  /** Of its socket. */
  #identity: string;
  #isReleased = false;

  private constructor(folder: string, server: Server, identity: string) {
    this.#folder = folder;
    this.#server = server;
    this.#identity = identity;
  }

  static async take(folder: string): Promise<SlotLock | undefined> {
    const taken = await takeSocket(folder);
    return taken && new SlotLock(folder, taken.server, taken.identity);
  }

  async renew(): Promise<boolean> {
    if (this.#isReleased || identityOf(join(this.#folder, lockName)) === this.#identity) return true;
    const taken = await takeSocket(this.#folder).catch(() => undefined);
    if (taken === undefined) return false;
    const before = this.#server;
    this.#server = taken.server;
    this.#identity = taken.identity;
    before.close();
    if (this.#isReleased) this.#server.close();
    return true;
  }

  release(): Promise<void> {
    this.#isReleased = true;
    return new Promise((done) => {
      this.#server.close(() => done());
    });
  }
}

interface Taken {
  readonly server: Server;
  readonly identity: string;
}

/** Listens under a unique name, which atomically becomes the lock if there is none, or only that of a dead process. */
async function takeSocket(folder: string): Promise<Taken | undefined> {
  const own = `${lockName}.${randomBytes(6).toString('hex')}`;
  const server = await withShortPath(folder, own, listen);
  const path = join(folder, own);
  try {
    const identity = identityOf(path) ?? '';
    for (let tries = 0; tries < triesMax; tries++) {
      if (isLinked(path, join(folder, lockName))) return { server, identity };
      if ((await stateOf(folder)) === 'held') break;
      await removeDead(folder);
    }
  } catch (error) {
    server.close();
    throw error;
  } finally {
    rmSync(path, { force: true });
  }
  server.close();
  return undefined;
}

/**
 * Deletes the lock of a dead process, which several processes may attempt. The one that creates a hard link, whose name
 * identifies this lock file, may delete it; while the link exists, no process can replace the lock.
 */
async function removeDead(folder: string): Promise<void> {
  const lock = join(folder, lockName);
  const dead = identityOf(lock);
  if (dead === undefined || (await stateOf(folder)) !== 'free') return;
  // No await from here on.
  const second = join(folder, `${lockName}.dead-${dead}`);
  if (!isLinked(lock, second)) {
    const age = Date.now() - (lstatSync(second, { throwIfNoEntry: false })?.ctimeMs ?? Date.now());
    if (age > removalMsMax) rmSync(second, { force: true });
    return;
  }
  if (identityOf(second) === dead) rmSync(lock, { force: true });
  rmSync(second, { force: true });
}

/** Gives a file a second name. @returns false if that is taken, or the file is gone. */
function isLinked(path: string, name: string): boolean {
  try {
    linkSync(path, name);
    return true;
  } catch (error) {
    if (isAbsent(error) || (error instanceof Error && 'code' in error && error.code === 'EEXIST')) return false;
    throw error;
  }
}

/** Identifies a socket file uniquely, even against a later one with the same inode. */
function identityOf(path: string): string | undefined {
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.ino}-${stats.mtimeNs}`;
}

function listen(path: string): Promise<Server> {
  return new Promise((done, fail) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', fail);
    server.listen(path, () => {
      server.unref();
      done(server);
    });
  });
}
