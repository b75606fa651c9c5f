/**
 * Makes visits as new visitors do: a connection for each, closed by the visitor after the answer. Reads one line of
 * JSON with the instructions for each round from its standard input, and prints one line with the outcome.
 */
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { type SecureVersion, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { browserHeaders } from './wrk.ts';

export interface Visits {
  readonly port: number;
  /** The Host header, and over TLS the server name. */
  readonly host: string;
  readonly path: string;
  readonly count: number;
  /** How many visitors are connected at once. */
  readonly atOnce: number;
  /** `kept`: no visitor closes its connection, and each uses it for further visits. */
  readonly connection: 'kept' | 'tcp' | 'tls';
  readonly version?: SecureVersion;
  readonly isResumed?: boolean;
}

export interface Visited {
  readonly answered: number;
  readonly resumed: number;
  readonly seconds: number;
}

const heads = Object.entries(browserHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
const requestOf = ({ path, host }: Visits) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${heads.join('')}\r\n`;

function open(visits: Visits, session?: Buffer): Socket | TLSSocket {
  const { port, host, connection, version = 'TLSv1.3' } = visits;
  if (connection !== 'tls') return connect({ port, host: '127.0.0.1', noDelay: true });
  return tlsConnect({
    ...{ port, host: '127.0.0.1', servername: host, minVersion: version, maxVersion: version },
    ...{ rejectUnauthorized: false, session },
  });
}

/** Sends the request once connected, and resolves with the next answer, which has no body. */
function visit(socket: Socket, request: string): Promise<void> {
  return new Promise((done, fail) => {
    let text = '';
    const hear = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      if (!text.includes('\r\n\r\n')) return;
      socket.off('data', hear).off('error', fail).off('close', closed);
      if (text.startsWith('HTTP/1.1 302')) done();
      else fail(new Error(`answered ${text.slice(0, 200)}`));
    };
    const closed = () => fail(new Error('closed without an answer'));
    socket.on('data', hear).once('error', fail).once('close', closed);
    socket.write(request);
  });
}

const sessionWaitMs = 3_000;

/** A session that later visits resume, if the server has sent one: with TLS 1.3, after the handshake. */
async function firstSession(visits: Visits): Promise<Buffer | undefined> {
  const socket = open(visits) as TLSSocket;
  const session = new Promise<Buffer | undefined>((done) => {
    socket.once('session', done);
    setTimeout(() => done(undefined), sessionWaitMs);
  });
  await visit(socket, requestOf(visits));
  const found = await session;
  socket.destroy();
  return found;
}

async function run(visits: Visits): Promise<Visited> {
  const session = visits.isResumed ? await firstSession(visits) : undefined;
  const request = requestOf(visits);
  const startedMs = performance.now();
  let left = visits.count;
  let resumed = 0;
  const visitor = async () => {
    const kept = visits.connection === 'kept' ? open(visits) : null;
    while (left-- > 0) {
      const socket = kept ?? open(visits, session);
      await visit(socket, request);
      if ('isSessionReused' in socket && socket.isSessionReused()) resumed++;
      if (!kept) socket.end();
    }
    kept?.end();
  };
  await Promise.all(Array.from({ length: visits.atOnce }, visitor));
  return { answered: visits.count, resumed, seconds: (performance.now() - startedMs) / 1000 };
}

for await (const line of createInterface({ input: process.stdin })) {
  const visited = await run(JSON.parse(line) as Visits).catch((error: unknown) => ({ failed: String(error) }));
  process.stdout.write(`${JSON.stringify(visited)}\n`);
}
