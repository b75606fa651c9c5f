/**
 * A TCP proxy between Signpost and one of its stores that misbehaves on purpose.
 *
 *   open ⇄ slow · refusing · silent
 *
 * - slow: each chunk waits, both ways.
 * - refusing: open connections are reset, new ones refused.
 * - silent: data is read and dropped, nothing is closed. Connections that existed then stay dead, as after unplugging a
 *   cable; later ones work.
 */
import { connect, createServer, type Server, type Socket } from 'node:net';

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  isSilent: boolean;
}

const connectionsMax = 512;

export class TcpProxy {
  readonly #target: number;
  readonly #pairs = new Set<Pair>();
  #server: Server | undefined;
  #port = 0;
  #delayMs = 0;
  #isSilent = false;
  #answerBytesLeft = Number.POSITIVE_INFINITY;
  /** Connections that a fault has hit. */
  hits = 0;

  private constructor(target: number) {
    this.#target = target;
  }

  static async start(target: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    await proxy.#listen();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  /** The same URL with this proxy's port. */
  through(url: string): string {
    const proxied = new URL(url);
    proxied.port = String(this.#port);
    return proxied.href;
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Each chunk waits this long, each way, on all connections. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
    this.hits += this.#pairs.size;
  }

  /** Resets every open connection. */
  reset(): void {
    for (const pair of [...this.#pairs]) {
      this.hits++;
      pair.near.resetAndDestroy();
      pair.far.resetAndDestroy();
    }
  }

  /** Resets all connections after this many more bytes of answers, most likely in the middle of one. */
  resetAfter(answerBytes: number): void {
    this.#answerBytesLeft = answerBytes;
  }

  /** Resets open connections and refuses new ones. */
  refuse(): void {
    this.#server?.close();
    this.#server = undefined;
    this.reset();
  }

  /** Drops all data from now on; open connections stay silent even after `heal`. */
  silence(): void {
    this.#isSilent = true;
    for (const pair of this.#pairs) this.#mute(pair);
  }

  /** New connections are served again, at full speed. */
  async heal(): Promise<void> {
    this.#delayMs = 0;
    this.#isSilent = false;
    this.#answerBytesLeft = Number.POSITIVE_INFINITY;
    if (this.#server === undefined) await this.#listen();
  }

  stop(): void {
    this.refuse();
  }

  #listen(): Promise<void> {
    const server = createServer({ noDelay: true }, (near) => this.#join(near));
    server.maxConnections = connectionsMax;
    this.#server = server;
    return new Promise((done, fail) => {
      server.once('error', fail);
      server.listen(this.#port, '127.0.0.1', () => {
        const address = server.address();
        if (address !== null && typeof address === 'object') this.#port = address.port;
        done();
      });
    });
  }

  #join(near: Socket): void {
    const far = connect({ port: this.#target, host: '127.0.0.1', noDelay: true });
    const pair: Pair = { near, far, isSilent: false };
    this.#pairs.add(pair);
    if (this.#isSilent) this.#mute(pair);
    this.#carry(pair, near, far, false);
    this.#carry(pair, far, near, true);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => undefined);
      one.once('close', () => {
        if (near.destroyed && far.destroyed) this.#pairs.delete(pair);
        // As with an unplugged cable, neither side notices that the other is gone.
        if (pair.isSilent && one === far) return;
        if (one.readableEnded) other.end();
        else other.destroy();
      });
    }
  }

  #carry(pair: Pair, from: Socket, to: Socket, isAnswer: boolean): void {
    from.on('data', (chunk) => {
      if (pair.isSilent) return;
      if (isAnswer && !this.#mayAnswer(chunk.length)) return;
      const write = () => {
        if (pair.isSilent || to.destroyed) return;
        if (!to.write(chunk)) {
          from.pause();
          to.once('drain', () => from.resume());
        }
      };
      if (this.#delayMs === 0) write();
      else setTimeout(write, this.#delayMs);
    });
    from.once('end', () => {
      if (!pair.isSilent) to.end();
    });
  }

  #mayAnswer(bytes: number): boolean {
    this.#answerBytesLeft -= bytes;
    if (this.#answerBytesLeft >= 0) return true;
    this.#answerBytesLeft = Number.POSITIVE_INFINITY;
    this.reset();
    return false;
  }

  #mute(pair: Pair): void {
    if (!pair.isSilent) this.hits++;
    pair.isSilent = true;
  }
}
