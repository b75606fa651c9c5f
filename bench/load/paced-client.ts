/**
 * A process that makes visits at a fixed rate: argv port, host, file with paths, rate per second, seconds, connections.
 * The latency of a visit is measured from when it was due, not from when it could be sent, so a stall counts for every
 * visitor who would have come during it (G. Tene, "How not to measure latency"). Prints one line of JSON.
 */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { build } from 'hdr-histogram-js';
import { browserHeaders } from './wrk.ts';

const [port, host, file, rate, seconds, connections] = process.argv.slice(2);
const perSecond = Number(rate);
const totalMs = Number(seconds) * 1000;
const headers = Object.entries({ Host: host ?? '', ...browserHeaders })
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('');
const requests = readFileSync(file ?? '', 'utf8')
  .trimEnd()
  .split('\n')
  .map((path) => Buffer.from(`GET ${path} HTTP/1.1\r\n${headers}\r\n`));

/** Microseconds. */
const latency = build({ highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 });
const idle: Connection[] = [];
let sent = 0;
let answered = 0;
let failed = 0;
const beganMs = performance.now() + 100;
const dueMs = (n: number) => beganMs + (n * 1000) / perSecond;

class Connection {
  readonly #socket: Socket;
  #dueMs = 0;
  #isBusy = false;
  #text = '';

  constructor() {
    this.#socket = connect({ port: Number(port), host: '127.0.0.1', noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.on('connect', () => idle.push(this));
    this.#socket.on('data', (chunk: string) => this.#receive(chunk));
    this.#socket.on('error', () => {
      if (this.#isBusy) failed++;
    });
  }

  send(n: number): void {
    this.#dueMs = dueMs(n);
    this.#isBusy = true;
    this.#socket.write(requests[n % requests.length] ?? '');
  }

  #receive(chunk: string): void {
    this.#text += chunk;
    const end = this.#text.indexOf('\r\n\r\n');
    if (end === -1) return;
    const length = Number(/content-length: (\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < end + 4 + length) return;
    this.#text = '';
    this.#isBusy = false;
    latency.recordValue(Math.max(1, Math.round((performance.now() - this.#dueMs) * 1000)));
    answered++;
    idle.push(this);
    pump();
  }

  close(): void {
    this.#socket.destroy();
  }
}

function pump(): void {
  const now = performance.now();
  while (now >= dueMs(sent) && dueMs(sent) < beganMs + totalMs) {
    const connection = idle.pop();
    if (connection === undefined) return;
    connection.send(sent++);
  }
}

const all = Array.from({ length: Number(connections) }, () => new Connection());
const timer = setInterval(() => {
  pump();
  if (performance.now() < beganMs + totalMs + 500) return;
  clearInterval(timer);
  for (const connection of all) connection.close();
  const at = (percentile: number) => latency.getValueAtPercentile(percentile) / 1000;
  const due = Math.round((perSecond * totalMs) / 1000);
  process.stdout.write(
    `${JSON.stringify({ due, answered, failed, p50_ms: at(50), p90_ms: at(90), p99_ms: at(99), p999_ms: at(99.9), max_ms: latency.maxValue / 1000 })}\n`,
  );
}, 1);
