/**
 * Sends POST requests over persistent connections: as fast as they are answered, or at a fixed rate with each latency
 * measured from when the request was due.
 */
import { connect, type Socket } from 'node:net';
import { build, type Histogram } from 'hdr-histogram-js';

/** The bytes of the n-th request, head and body. */
export type RequestOf = (n: number) => Buffer;

export interface PostRun {
  readonly answered: number;
  /** Unexpected answers, and connections that broke. */
  readonly failed: number;
  readonly seconds: number;
  /** Microseconds. */
  readonly latency: Histogram;
}

export interface PostOptions {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second; at full speed if absent. */
  readonly rate?: number;
  readonly status: number;
  /** Text that an answer must contain. */
  readonly holding?: string;
  readonly requestOf: RequestOf;
  /** Number of the first request. */
  readonly from: number;
}

export async function post(options: PostOptions): Promise<PostRun> {
  const run = new Run(options);
  return await run.whole();
}

class Run {
  readonly #options: PostOptions;
  readonly #latency = build({ highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 });
  readonly #idle: Socket[] = [];
  readonly #dueOf = new Map<Socket, number>();
  readonly #textOf = new Map<Socket, string>();
  #sent = 0;
  #answered = 0;
  #failed = 0;
  #beganMs = 0;
  #endMs = 0;
  #settle: () => void = () => undefined;

  constructor(options: PostOptions) {
    this.#options = options;
  }

  async whole(): Promise<PostRun> {
    const { connections, port, rate, seconds } = this.#options;
    const sockets = await Promise.all(Array.from({ length: connections }, () => this.#open(port)));
    this.#beganMs = performance.now();
    this.#endMs = this.#beganMs + seconds * 1000;
    const over = new Promise<void>((done) => {
      this.#settle = done;
    });
    this.#idle.push(...sockets);
    if (rate === undefined) for (const socket of this.#idle.splice(0)) this.#send(socket, performance.now());
    else this.#pace(rate);
    const timer = setTimeout(() => this.#settle(), seconds * 1000 + 3_000);
    await over;
    clearTimeout(timer);
    const took = (performance.now() - this.#beganMs) / 1000;
    for (const socket of sockets) socket.destroy();
    return { answered: this.#answered, failed: this.#failed, seconds: took, latency: this.#latency };
  }

  #open(port: number): Promise<Socket> {
    return new Promise((done, fail) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      socket.setEncoding('latin1');
      socket.once('connect', () => done(socket));
      socket.once('error', (error) => {
        this.#failed++;
        fail(error);
      });
      socket.on('data', (chunk: string) => this.#receive(socket, chunk));
    });
  }

  /**
   * Sends due requests in every turn. A request that finds no free connection is sent late, and its latency is measured
   * from when it was due.
   */
  #pace(rate: number): void {
    const nowMs = performance.now();
    const due = Math.floor(((Math.min(nowMs, this.#endMs) - this.#beganMs) * rate) / 1000);
    while (this.#sent < due) {
      const socket = this.#idle.pop();
      if (!socket) break;
      this.#send(socket, this.#beganMs + (this.#sent * 1000) / rate);
    }
    if (nowMs < this.#endMs || this.#sent < due) setTimeout(() => this.#pace(rate), 1);
    else if (this.#idle.length === this.#options.connections) this.#settle();
    else setTimeout(() => this.#pace(rate), 5);
  }

  #send(socket: Socket, dueMs: number): void {
    this.#dueOf.set(socket, dueMs);
    socket.write(this.#options.requestOf(this.#options.from + this.#sent++));
  }

  #receive(socket: Socket, chunk: string): void {
    const text = (this.#textOf.get(socket) ?? '') + chunk;
    const head = text.indexOf('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    if (head === -1 || text.length < head + 4 + length) {
      this.#textOf.set(socket, text);
      return;
    }
    this.#textOf.set(socket, '');
    this.#answered++;
    const { status, holding = '' } = this.#options;
    if (!text.startsWith(`HTTP/1.1 ${status}`) || !text.includes(holding, head)) this.#failed++;
    const nowMs = performance.now();
    this.#latency.recordValue(Math.max(1, Math.round((nowMs - (this.#dueOf.get(socket) ?? nowMs)) * 1000)));
    if (this.#options.rate !== undefined) this.#idle.push(socket);
    else if (nowMs < this.#endMs) this.#send(socket, nowMs);
    else {
      this.#idle.push(socket);
      if (this.#idle.length === this.#options.connections) this.#settle();
    }
  }
}
