/**
 * Visitors that follow a short link over persistent connections, as cheaply as Node can. Each request carries its
 * number in the ledger as `?n=`. A visitor whose connection is cut opens a new one and continues with the next number.
 */
import { connect, type Socket } from 'node:net';
import type { Ledger } from './ledger.ts';

export interface ClickLoadOptions {
  /**
   * Addresses of redirectors on several hosts, this one's if absent. A visitor whose connection ends, or is not accepted,
   * goes on to the next, as with any balancer; addresses may be added and removed.
   */
  readonly addresses?: readonly string[];
  readonly port: number;
  readonly host: string;
  readonly code: string;
  readonly ledger: Ledger;
  /** Requests per second, all visitors together. */
  readonly rate: number;
  readonly visitors: number;
  /** A request without an answer is given up after this time. */
  readonly patienceMs?: number;
}

const tickMs = 5;
const reconnectMs = 25;
/** An address that accepts no connection for this long is unreachable. */
const connectTimeoutMs = 1_000;
const latenciesMax = 4_000_000;
const userAgents = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15',
  'Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)',
];

export class ClickLoad {
  readonly #options: ClickLoadOptions;
  /** Longest idle first, so that every connection is used. */
  readonly #idle = new Set<Visitor>();
  readonly #visitors: Visitor[] = [];
  readonly #latencies: number[] = [];
  /** Answers by status. */
  readonly answers = new Map<number, number>();
  /** Connections that ended in the middle of a request. */
  cut = 0;
  #allowance = 0;
  #connections = 0;
  #ticker: NodeJS.Timeout | undefined;
  isStopping = false;

  constructor(options: ClickLoadOptions) {
    this.#options = options;
  }

  start(): void {
    for (let n = 0; n < this.#options.visitors; n++) this.#visitors.push(new Visitor(this, this.#options));
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  /** Sends nothing more, waits for the pending answers, and closes all connections. */
  async stop(): Promise<void> {
    this.isStopping = true;
    clearInterval(this.#ticker);
    await Promise.all(this.#visitors.map((visitor) => visitor.end()));
  }

  get sent(): number {
    return this.#options.ledger.counts.sent;
  }

  /** Latencies in milliseconds of the answers since the last call. */
  takeLatencies(): { p50: number; p99: number; max: number; answers: number } {
    const sorted = this.#latencies.splice(0).sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return { p50: at(0.5), p99: at(0.99), max: at(1), answers: sorted.length };
  }

  answered(visitor: Visitor, number: number, status: number, tookMs: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    this.#options.ledger.settle(number, status === 302 ? 'kept' : 'refused');
    if (this.#latencies.length < latenciesMax) this.#latencies.push(tookMs);
    if (visitor.isConnected) this.free(visitor);
  }

  nextAddress(): string {
    const { addresses = ['127.0.0.1'] } = this.#options;
    return addresses[this.#connections++ % addresses.length] ?? '';
  }

  gone(visitor: Visitor): void {
    this.#idle.delete(visitor);
  }

  free(visitor: Visitor): void {
    if (this.isStopping) return;
    if (this.#allowance >= 1) {
      this.#allowance--;
      visitor.send();
    } else {
      this.#idle.add(visitor);
    }
  }

  #tick(): void {
    const perTick = (this.#options.rate * tickMs) / 1000;
    // Requests that could not be sent while all visitors waited are skipped.
    this.#allowance = Math.min(this.#allowance + perTick, perTick * 4 + 1);
    for (const visitor of this.#idle) {
      if (this.#allowance < 1) return;
      this.#allowance--;
      this.#idle.delete(visitor);
      visitor.send();
    }
  }
}

class Visitor {
  readonly #load: ClickLoad;
  readonly #options: ClickLoadOptions;
  #socket: Socket | undefined;
  #text = '';
  /** Number of the open request; 0 if there is none. */
  #number = 0;
  #sentAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #onQuiet: (() => void) | undefined;

  constructor(load: ClickLoad, options: ClickLoadOptions) {
    this.#load = load;
    this.#options = options;
    this.#connect();
  }

  get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  send(): void {
    const { ledger, code, host, patienceMs = 60_000 } = this.#options;
    if (this.#socket === undefined) return;
    const number = ledger.open();
    this.#number = number;
    this.#sentAt = performance.now();
    const agent = userAgents[number % userAgents.length];
    this.#socket.write(
      `GET /${code}?n=${number} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${agent}\r\nAccept-Language: de-CH,de;q=0.9\r\n\r\n`,
    );
    this.#timer = setTimeout(() => this.#socket?.destroy(), patienceMs);
  }

  end(): Promise<void> {
    return new Promise((done) => {
      this.#onQuiet = () => {
        this.#onQuiet = undefined;
        clearTimeout(this.#timer);
        this.#socket?.destroy();
        this.#socket = undefined;
        done();
      };
      if (this.#number === 0) this.#onQuiet();
    });
  }

  #connect(): void {
    const socket = connect({ port: this.#options.port, host: this.#load.nextAddress(), noDelay: true });
    socket.setEncoding('latin1');
    const patience = setTimeout(() => socket.destroy(), connectTimeoutMs);
    socket.once('close', () => clearTimeout(patience));
    socket.once('connect', () => {
      clearTimeout(patience);
      this.#socket = socket;
      this.#load.free(this);
    });
    socket.on('data', (chunk: string) => this.#read(chunk));
    socket.on('error', () => undefined);
    socket.once('close', () => this.#closed());
  }

  #read(chunk: string): void {
    this.#text += chunk;
    const head = this.#text.indexOf('\r\n\r\n');
    if (head === -1) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text.slice(0, head + 2))?.[1] ?? 0);
    if (this.#text.length < head + 4 + length) return;
    const status = Number(this.#text.slice(9, 12));
    const isLast = /\r\nconnection: *close/i.test(this.#text.slice(0, head + 2));
    const number = this.#number;
    this.#text = '';
    this.#number = 0;
    clearTimeout(this.#timer);
    if (isLast) {
      this.#socket?.destroy();
      this.#socket = undefined;
    }
    this.#load.answered(this, number, status, performance.now() - this.#sentAt);
    this.#onQuiet?.();
  }

  #closed(): void {
    this.#socket = undefined;
    this.#text = '';
    this.#load.gone(this);
    clearTimeout(this.#timer);
    if (this.#number !== 0) {
      this.#number = 0;
      this.#load.cut++;
    }
    if (this.#onQuiet) this.#onQuiet();
    else if (!this.#load.isStopping) setTimeout(() => this.#load.isStopping || this.#connect(), reconnectMs);
  }
}
