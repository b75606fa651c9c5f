/** A well-behaved client that sends requests continuously, and notes how long each answer took. */
import { sleep, systemTime } from '#common/time.ts';
import { Wire } from './fuzz/wire.ts';

const PAUSE_MS = 10;

export interface Latencies {
  readonly answers: number;
  readonly wrong: readonly string[];
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export class Probe {
  readonly #times: number[] = [];
  readonly #wrong: string[] = [];
  readonly #wire: Wire;
  readonly #ended: Promise<void>;
  #isStopped = false;

  constructor(port: number, target: string, headers: Record<string, string>) {
    this.#wire = new Wire(port, 1);
    this.#ended = this.#run(target, headers);
  }

  async stop(): Promise<Latencies> {
    this.#isStopped = true;
    await this.#ended;
    this.#wire.close();
    const sorted = this.#times.sort((a, b) => a - b);
    const at = (share: number) => Math.round((sorted[Math.floor((sorted.length - 1) * share)] ?? 0) * 10) / 10;
    return { answers: sorted.length, wrong: this.#wrong, medianMs: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
  }

  async #run(target: string, headers: Record<string, string>): Promise<void> {
    while (!this.#isStopped) {
      const beganMs = performance.now();
      const received = await this.#wire.send({ method: 'GET', target, headers, body: null });
      this.#times.push(performance.now() - beganMs);
      if (typeof received === 'string') this.#wrong.push(received);
      else if (received.status !== 200) this.#wrong.push(String(received.status));
      await sleep(systemTime, PAUSE_MS);
    }
  }
}
