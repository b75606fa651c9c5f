import { randomInt } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { StartupError } from './child.ts';

/** Whether nobody listens on this port of this address (or of every address). */
function isPortFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, host, () => probe.close(() => resolve(true)));
  });
}

/** Below the ports that systems hand out by themselves (Linux 32768, others 49152), so that no outgoing connection takes one. */
const chosenPorts = { from: 12_000, to: 32_000 };
const triesMax = 100;

/** A port nobody listens on now, which nobody gets by chance while its server is away. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let tries = 0; tries < triesMax; tries++) {
    const port = randomInt(chosenPorts.from, chosenPorts.to);
    if (await isPortFree(port, host)) return port;
  }
  throw new StartupError(`No free port was found on ${host}.`);
}

/**
 * The port asked for, or a free one for 0.
 * @throws StartupError when the port asked for is taken.
 */
export async function portFor(name: string, port: number, setting: string, host = '127.0.0.1'): Promise<number> {
  if (port === 0) return freePort(host);
  if (await isPortFree(port, host)) return port;
  throw new StartupError(
    `${name}: port ${port} of ${host} is in use: stop what listens there (ss -ltnp 'sport = :${port}' shows it)` +
      `${setting === '' ? '.' : `, or set ${setting} to another port.`}`,
  );
}

/** Sends bytes (or none) to a loopback port and says whether the first bytes of the answer are the expected ones. */
export function answers(port: number, send: string, expected: string, timeoutMs = 1_000): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, timeout: timeoutMs });
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
