/**
 * A lock on a folder that dies with its process, however the process dies: a Unix socket that is listened on.
 * A connection that is accepted means held; one that is refused means that the holder is gone.
 */
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';

/** A socket's path is a field of 108 bytes on Linux and 104 on macOS. */
const socketPathMax = 100;
const triesMax = 5;

/** The socket in the folder itself if its path is short enough, else one in the system's folder for such things. */
function socketPath(folder: string): string {
  const direct = join(folder, '.lock');
  const fromHere = relative(process.cwd(), direct);
  for (const path of [direct, fromHere]) if (Buffer.byteLength(path) <= socketPathMax) return path;
  return join(tmpdir(), `signpost-${createHash('sha256').update(resolve(folder)).digest('hex').slice(0, 32)}.lock`);
}

/** Whether a living process holds the folder. A stopped one still does. */
export function isFolderHeld(folder: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(socketPath(folder));
    socket.once('connect', () => {
      socket.destroy();
      done(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code === 'EAGAIN' || error.code === 'EACCES'));
  });
}

/** Locks on folders, as journal, publisher and ingest ask for them. */
export interface SlotLocks {
  /** Takes the lock of a folder, which must exist. @returns how to let go of it; `undefined` while another process holds it. */
  take(folder: string): Promise<{ release(): Promise<void> } | undefined>;
  isHeld(folder: string): Promise<boolean>;
}

export const socketLocks: SlotLocks = { take: (folder) => SlotLock.take(folder), isHeld: isFolderHeld };

export class SlotLock {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @returns the lock, or `undefined` while another process holds it. The folder must exist. */
  static async take(folder: string): Promise<SlotLock | undefined> {
    for (let tries = 0; tries < triesMax; tries++) {
      const server = await listen(socketPath(folder));
      if (server !== undefined) return new SlotLock(server);
      if (await isFolderHeld(folder)) return undefined;
      rmSync(socketPath(folder), { force: true });
    }
    return undefined;
  }

  release(): Promise<void> {
    return new Promise((done) => {
      this.#server.close(() => done());
    });
  }
}

function listen(path: string): Promise<Server | undefined> {
  return new Promise((done, fail) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') done(undefined);
      else fail(error);
    });
    server.listen(path, () => {
      server.unref();
      done(server);
    });
  });
}
