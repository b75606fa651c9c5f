/** An abusive client: raw bytes over TLS or TCP, as slow, numerous and malformed as requested. */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

const CONNECT_TIMEOUT_MS = 20_000;
/** Some requests are never answered: the server waits for the rest of an incomplete one, too. */
const FIRST_BYTE_MS = 2_000;
const KEPT_CHARACTERS_MAX = 4 << 20;

export interface Target {
  readonly port: number;
  readonly isTls: boolean;
}

export class RoughClient {
  readonly socket: Socket;
  received = '';
  bytesReceived = 0;
  closedMs: number | null = null;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.closedMs = performance.now();
    });
  }

  /** @param reads false leaves everything the server sends in the kernel. */
  static open({ port, isTls }: Target, reads = true): Promise<RoughClient> {
    return new Promise((settle, fail) => {
      const options = { host: '127.0.0.1', port, rejectUnauthorized: false };
      const socket = isTls ? connectTls(options) : connectTcp(options);
      const client = new RoughClient(socket);
      const timer = setTimeout(() => socket.destroy(new Error('no connection in time')), CONNECT_TIMEOUT_MS);
      socket.once('error', fail);
      socket.once(isTls ? 'secureConnect' : 'connect', () => {
        clearTimeout(timer);
        if (reads) socket.on('data', (chunk: Buffer) => client.#take(chunk));
        else socket.pause();
        settle(client);
      });
      socket.once('close', () => {
        clearTimeout(timer);
        fail(new Error('closed before it was open'));
      });
    });
  }

  write(bytes: string | Uint8Array): void {
    if (!this.socket.destroyed) this.socket.write(bytes);
  }

  get statuses(): number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
  }

  get isClosed(): boolean {
    return this.closedMs !== null;
  }

  destroy(): void {
    this.socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.bytesReceived += chunk.byteLength;
    if (this.received.length < KEPT_CHARACTERS_MAX) this.received += chunk.toString('latin1');
  }
}

/** Opens many, a few at a time, since a TLS handshake is expensive for both sides. */
export async function openMany(target: Target, count: number, reads = true): Promise<RoughClient[]> {
  const clients: RoughClient[] = [];
  let opened = 0;
  const lane = async () => {
    while (opened < count) {
      opened++;
      clients.push(await RoughClient.open(target, reads));
    }
  };
  await Promise.all(Array.from({ length: Math.min(16, count) }, lane));
  return clients;
}

/** Sends one text on its own connection. @returns everything received until the connection ended or became idle. */
export async function exchange(target: Target, bytes: string | Uint8Array, silentMs = 400): Promise<RoughClient> {
  const client = await RoughClient.open(target);
  await new Promise<void>((settle) => {
    let timer = setTimeout(settle, FIRST_BYTE_MS);
    client.socket.on('data', () => {
      clearTimeout(timer);
      timer = setTimeout(settle, silentMs);
    });
    client.socket.once('close', () => {
      clearTimeout(timer);
      settle();
    });
    client.write(bytes);
  });
  return client;
}
