/**
 * Visitors of links at a fixed rate, over persistent connections. The latency of a visit is measured from the time at
 * which it was due, and a visitor that waits for an answer delays no other: connections are added while due visits have
 * none.
 */
import { connect, type Socket } from 'node:net';

export interface PacedVisitorsOptions {
  /** Ports of the redirectors, which are visited in turn while they accept connections. */
  readonly ports: readonly number[];
  readonly host: string;
  readonly codes: readonly string[];
  /** Visits per second, of all links together. */
  readonly rate: number;
}

/** What the visitors of one link saw. */
export interface Seen {
  /** 302: redirected to the destination. */
  ledOn: number;
  /** The connection ended without an answer: the click may have been used. */
  cut: number;
  /** When the last one was redirected. */
  lastLedOnMs: number;
}

interface Answered {
  readonly dueMs: number;
  readonly tookMs: number;
  readonly code: string;
}

export interface Latency {
  readonly visits: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const tickMs = 2;
const reconnectMs = 25;
const firstConnections = 16;
const connectionsMax = 2_500;
const agent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';

export class PacedVisitors {
  readonly seen = new Map<string, Seen>();
  /** Answers by status. */
  readonly answers = new Map<number, number>();
  readonly #options: PacedVisitorsOptions;
  readonly #lanes: Lane[];
  readonly #answered: Answered[] = [];
  readonly #beganMs = performance.now();
  #sent = 0;
  #endedMs = 0;
  #ticker: NodeJS.Timeout | undefined;

  constructor(options: PacedVisitorsOptions) {
    this.#options = options;
    for (const code of options.codes) this.seen.set(code, { ledOn: 0, cut: 0, lastLedOnMs: 0 });
    this.#lanes = options.ports.map((port) => new Lane(port, options.host, this));
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  get ledOn(): number {
    return [...this.seen.values()].reduce((sum, { ledOn }) => sum + ledOn, 0);
  }

  /** Visits that were answered, per second. */
  get reachedRate(): number {
    return (this.#answered.length * 1_000) / ((this.#endedMs || performance.now()) - this.#beganMs);
  }

  /**
   * The latency of visits that were due before, or after, the moment `gapMs` after their link redirected its last
   * visitor.
   */
  latency(part: 'until the end' | 'after the end', gapMs = 0): Latency {
    const chosen = this.#answered.filter(({ dueMs, code }) => {
      const isAfter = dueMs > (this.seen.get(code)?.lastLedOnMs ?? 0) + gapMs;
      return isAfter === (part === 'after the end');
    });
    const sorted = chosen.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return { visits: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
  }

  /** Sends nothing more, and waits for the answers that are due. */
  async stop(): Promise<void> {
    clearInterval(this.#ticker);
    this.#endedMs = performance.now();
    await Promise.all(this.#lanes.map((lane) => lane.end()));
  }

  answer(code: string, dueMs: number, status: number): void {
    const nowMs = performance.now();
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    this.#answered.push({ dueMs, tookMs: nowMs - dueMs, code });
    const seen = this.seen.get(code);
    if (status !== 302 || seen === undefined) return;
    seen.ledOn++;
    seen.lastLedOnMs = nowMs;
  }

  cut(code: string): void {
    const seen = this.seen.get(code);
    if (seen) seen.cut++;
  }

  #tick(): void {
    const { rate, codes } = this.#options;
    const nowMs = performance.now();
    for (;;) {
      const dueMs = this.#beganMs + ((this.#sent + 1) * 1_000) / rate;
      if (dueMs > nowMs) return;
      const lane = this.#nextLane();
      // No redirector accepts connections, or all connections are busy: due visits stay due.
      if (lane === undefined) return;
      lane.send(codes[this.#sent++ % codes.length] ?? '', dueMs);
    }
  }

  #nextLane(): Lane | undefined {
    for (let tried = 0; tried < this.#lanes.length; tried++) {
      const lane = this.#lanes[(this.#sent + tried) % this.#lanes.length];
      if (lane?.isReady) return lane;
    }
    return undefined;
  }
}

/** The connections to one redirector. */
class Lane {
  readonly idle: Connection[] = [];
  readonly open = new Set<Connection>();
  readonly load: PacedVisitors;
  readonly host: string;
  readonly port: number;
  #isEnding = false;

  constructor(port: number, host: string, load: PacedVisitors) {
    this.port = port;
    this.host = host;
    this.load = load;
    for (let n = 0; n < firstConnections; n++) this.#connect();
  }

  get isReady(): boolean {
    if (this.idle.length === 0 && this.open.size > 0 && this.open.size < connectionsMax) this.#connect();
    return this.idle.length > 0;
  }

  send(code: string, dueMs: number): void {
    this.idle.shift()?.send(code, dueMs);
  }

  closed(connection: Connection): void {
    this.open.delete(connection);
    const at = this.idle.indexOf(connection);
    if (at !== -1) this.idle.splice(at, 1);
    if (this.open.size < firstConnections && !this.#isEnding)
      setTimeout(() => this.#isEnding || this.#connect(), reconnectMs);
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    await Promise.all([...this.open].map((connection) => connection.end()));
  }

  #connect(): void {
    this.open.add(new Connection(this));
  }
}

class Connection {
  readonly #lane: Lane;
  readonly #socket: Socket;
  #text = '';
  /** Short code of the open visit; empty if there is none. */
  #code = '';
  #dueMs = 0;
  #onQuiet: (() => void) | undefined;

  constructor(lane: Lane) {
    this.#lane = lane;
    this.#socket = connect({ port: lane.port, host: '127.0.0.1', noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.once('connect', () => lane.idle.push(this));
    this.#socket.on('data', (chunk: string) => this.#read(chunk));
    this.#socket.on('error', () => undefined);
    this.#socket.once('close', () => this.#closed());
  }

  send(code: string, dueMs: number): void {
    this.#code = code;
    this.#dueMs = dueMs;
    this.#socket.write(`GET /${code} HTTP/1.1\r\nHost: ${this.#lane.host}\r\nUser-Agent: ${agent}\r\n\r\n`);
  }

  end(): Promise<void> {
    return new Promise((done) => {
      this.#onQuiet = () => {
        this.#socket.destroy();
        done();
      };
      if (this.#code === '') this.#onQuiet();
    });
  }

  #read(chunk: string): void {
    this.#text += chunk;
    const head = this.#text.indexOf('\r\n\r\n');
    if (head === -1) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < head + 4 + length) return;
    this.#lane.load.answer(this.#code, this.#dueMs, Number(this.#text.slice(9, 12)));
    this.#text = '';
    this.#code = '';
    this.#lane.idle.push(this);
    this.#onQuiet?.();
  }

  #closed(): void {
    if (this.#code !== '') this.#lane.load.cut(this.#code);
    this.#code = '';
    this.#lane.closed(this);
    this.#onQuiet?.();
  }
}
