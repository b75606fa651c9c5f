/** The interface of every server that runs locally, and the startup steps that they share. */
import { chownSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Child, type ChildCommand, type Exit, StartupError, startChild, waitUntilReady } from './child.ts';
import { lockFolder } from './folder-lock.ts';
import { type Endpoint, portFor } from './ports.ts';
import { makeSocketFolder, removeSocketFolder } from './socket-folder.ts';

export interface ServerPlace {
  /** Folder of this server; nothing else may use it. */
  readonly dataDir: string;
  /** A port on loopback, 0: any free one. Absent: a Unix socket in the folder, except for NATS, which has none. */
  readonly port?: number;
}

export interface LocalServer {
  readonly name: string;
  readonly url: string;
  /** 0 if it listens on a Unix socket. */
  readonly port: number;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
}

export interface ServerPlan {
  readonly name: string;
  /** The file name of its Unix socket; absent if it can only listen on a port. */
  readonly socketName?: string;
  readonly command: (at: Endpoint) => Omit<ChildCommand, 'name' | 'logFile'>;
  readonly url: (at: Endpoint) => string;
  readonly isReady: (at: Endpoint) => Promise<boolean>;
  readonly readyTimeoutMs: number;
  /** Runs under the folder's lock before the first start. */
  readonly prepare?: () => Promise<void>;
  /** Who gets the folder of its socket, if it runs as another user. */
  readonly socketOwner?: () => { readonly uid: number; readonly gid: number } | undefined;
}

const portTries = 3;
/** A server whose launcher was killed ends by itself, at the latest by the guard's last signal. */
const orphanWaitMs = 40_000;

/** Locks the folder, prepares it, starts the server and waits until it answers. */
export async function startServer(place: ServerPlace, plan: ServerPlan): Promise<LocalServer> {
  const lock = await lockFolder(place.dataDir, orphanWaitMs);
  const logFile = join(place.dataDir, 'server.log');
  try {
    await plan.prepare?.();
    for (let tries = 1; ; tries++) {
      const at = await endpointOf(place, plan);
      const child = await startChild({ name: plan.name, logFile, ...plan.command(at) });
      lock.passTo(child.pid);
      try {
        await waitUntilReady(child, logFile, () => plan.isReady(at), plan.readyTimeoutMs);
        return serverOf(child, 'port' in at ? at.port : 0, plan.url(at), (isEnd) => {
          if (isEnd && 'path' in at) removeSocketFolder(place.dataDir, basename(at.path), plan.socketOwner?.()?.uid);
          lock.release();
        });
      } catch (error) {
        // If the port was chosen here, another program may have taken it in between; then another one is tried.
        const mayTryAgain = (place.port ?? 0) === 0 && tries < portTries && error instanceof StartupError;
        if (!mayTryAgain || !/address already in use/i.test(error.message)) throw error;
      }
    }
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function endpointOf(place: ServerPlace, plan: ServerPlan): Promise<Endpoint> {
  if (place.port !== undefined || plan.socketName === undefined)
    return { host: '127.0.0.1', port: await portFor(plan.name, place.port ?? 0, '') };
  const owner = plan.socketOwner?.();
  const folder = makeSocketFolder(place.dataDir, plan.socketName, owner?.uid);
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
  const path = join(folder, plan.socketName);
  // For commands on this machine (api/admin/local-store.ts).
  writeFileSync(join(place.dataDir, 'socket-path'), `${path}\n`, { mode: 0o600 });
  return { path };
}

/** @param release gets whether the server was stopped; one that ended by itself is started again at its address. */
function serverOf(child: Child, port: number, url: string, release: (isEnd: boolean) => void): LocalServer {
  return {
    name: child.name,
    url,
    port,
    pid: child.pid,
    exited: child.exited,
    hasExited: child.hasExited,
    kill: child.kill,
    stop: async () => {
      const isEnd = !child.hasExited();
      await child.stop();
      release(isEnd);
    },
  };
}
