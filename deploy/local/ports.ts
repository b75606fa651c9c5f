import { randomInt } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { StartupError } from './child.ts';

/** Null when the port can be bound on this address (or on every address); otherwise the system's error code. */
function listenFault(port: number, host: string): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error) => resolve('code' in error ? String(error.code) : error.message));
    probe.listen(port, host, () => probe.close(() => resolve(null)));
  });
}

/** Whether a port can be bound now. */
export async function isFree(port: number, host: string): Promise<boolean> {
  return (await listenFault(port, host)) === null;
}

/** Below the ephemeral port range (Linux 32768, others 49152), so that no outgoing connection takes one. */
const chosenPorts = { from: 12_000, to: 32_000 };
const triesMax = 100;

/** A free port that no outgoing connection takes by chance while its server is down. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let tries = 0; tries < triesMax; tries++) {
    const port = randomInt(chosenPorts.from, chosenPorts.to);
    if (await isFree(port, host)) return port;
  }
  throw new StartupError(`No free port was found on ${host}. Stop a process that uses one.`);
}

/**
 * Returns the requested port, or a free one for 0.
 * @throws StartupError when the requested port can't be bound: in use, not allowed, or not an address of this machine.
 */
export async function portFor(name: string, port: number, setting: string, host = '127.0.0.1'): Promise<number> {
  if (port === 0) return freePort(host);
  const fault = await listenFault(port, host);
  if (fault === null) return port;
  throw new StartupError(`${name}: ${portFault(fault, port, setting, host)}`);
}

function portFault(code: string, port: number, setting: string, host: string): string {
  const other = setting === '' ? '' : `, or set ${setting} to another port`;
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} of ${host} is in use: stop the process that uses it (ss -ltnp 'sport = :${port}' shows it)${other}.`;
    case 'EACCES':
      return `port ${port} of ${host} needs more rights than this user has: give node CAP_NET_BIND_SERVICE or start as root${other}.`;
    default:
      return `port ${port} of ${host} can't be bound (${code}): is ${host} an address of this machine?`;
  }
}

/** Where a local server listens, as net.connect takes it: a port on loopback, or a Unix socket. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string };

/** Sends bytes (or none) to a local server and checks whether the answer starts with the expected bytes. */
export function answers(at: Endpoint, send: string, expected: string, timeoutMs = 1_000): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...at, timeout: timeoutMs });
    let received = '';
    const finish = (isAnswer: boolean) => {
      socket.destroy();
      resolve(isAnswer);
    };
    socket.on('connect', () => {
      if (send !== '') socket.write(send, 'latin1');
    });
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (received.length >= expected.length) finish(received.startsWith(expected));
    });
    socket.on('timeout', () => finish(false));
    socket.on('error', () => finish(false));
    socket.on('close', () => finish(false));
  });
}
