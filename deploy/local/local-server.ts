/** The interface of every server that runs locally, and the startup steps that they share. */
import { join } from 'node:path';
import { type Child, type ChildCommand, type Exit, StartupError, startChild, waitUntilReady } from './child.ts';
import { lockFolder } from './folder-lock.ts';
import { portFor } from './ports.ts';

export interface ServerPlace {
  /** Folder of this server; nothing else may use it. */
  readonly dataDir: string;
  /** 0 or absent: any free port. */
  readonly port?: number;
}

export interface LocalServer {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  hasExited(): boolean;
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
}

export interface ServerPlan {
  readonly name: string;
  readonly command: (port: number) => Omit<ChildCommand, 'name' | 'logFile'>;
  readonly url: (port: number) => string;
  readonly isReady: (port: number) => Promise<boolean>;
  readonly readyTimeoutMs: number;
  /** Runs under the folder's lock before the first start. */
  readonly prepare?: (logFile: string) => Promise<void>;
}

const portTries = 3;
/** A server whose launcher was killed ends by itself, at the latest by the guard's last signal. */
const orphanWaitMs = 40_000;

/** Locks the folder, prepares it, starts the server and waits until it answers. */
export async function startServer(place: ServerPlace, plan: ServerPlan): Promise<LocalServer> {
  const lock = await lockFolder(place.dataDir, orphanWaitMs);
  const logFile = join(place.dataDir, 'server.log');
  try {
    await plan.prepare?.(logFile);
    for (let tries = 1; ; tries++) {
      const port = await portFor(plan.name, place.port ?? 0, '');
      const child = await startChild({ name: plan.name, logFile, ...plan.command(port) });
      lock.passTo(child.pid);
      try {
        await waitUntilReady(child, logFile, () => plan.isReady(port), plan.readyTimeoutMs);
        return serverOf(child, port, plan.url(port), () => lock.release());
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

function serverOf(child: Child, port: number, url: string, release: () => void): LocalServer {
  return {
    name: child.name,
    url,
    port,
    pid: child.pid,
    exited: child.exited,
    hasExited: child.hasExited,
    kill: child.kill,
    stop: async () => {
      await child.stop();
      release();
    },
  };
}
