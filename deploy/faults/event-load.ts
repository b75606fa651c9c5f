/**
 * An app's server that sends events in batches and behaves as clients do: a request that was refused or not answered is
 * sent again with the same ids until it is answered with 202, and now and then an answered batch is sent once more.
 */
import { Agent, request } from 'node:https';
import { sleep, systemTime } from '#common/time.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import type { Ledger } from './ledger.ts';

export interface EventLoadOptions {
  /** Ports of the gateways. Requests go to each in turn, so a refused request is retried at another. */
  readonly ports: readonly number[];
  readonly apiKey: string;
  /** Prefix of every event_id. */
  readonly tag: string;
  readonly ledger: Ledger;
  readonly random: SeededRandom;
  readonly batchEvents: number;
  readonly senders: number;
  readonly pauseMs: number;
  /** Share of answered batches that are sent again. */
  readonly repeats: number;
}

const retryMs = 150;
const patienceMs = 15_000;
const memoryMax = 50;

export class EventLoad {
  readonly #options: EventLoadOptions;
  readonly #agent: Agent;
  readonly #remembered: number[][] = [];
  #senders: Promise<void>[] = [];
  #isStopping = false;
  #posts = 0;
  #givesUpAt = Number.POSITIVE_INFINITY;
  readonly answers = new Map<number, number>();
  cut = 0;
  repeated = 0;

  constructor(options: EventLoadOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: options.senders });
  }

  start(): void {
    this.#senders = Array.from({ length: this.#options.senders }, () => this.#send());
  }

  /**
   * Starts no new batch; batches that were already started are retried until they are answered, for at most `withinMs`.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    this.#givesUpAt = Date.now() + withinMs;
    await Promise.all(this.#senders);
    this.#agent.destroy();
  }

  async #send(): Promise<void> {
    const { ledger, batchEvents, random, repeats, pauseMs } = this.#options;
    while (!this.#isStopping) {
      const repeat = random.next() < repeats && this.#remembered.length > 0 ? random.pick(this.#remembered) : undefined;
      if (repeat) this.repeated++;
      const batch = repeat ?? Array.from({ length: batchEvents }, () => ledger.open());
      while ((await this.#post(batch)) !== 202 && Date.now() < this.#givesUpAt) await sleep(systemTime, retryMs);
      if (!repeat) {
        this.#remembered.push(batch);
        if (this.#remembered.length > memoryMax) this.#remembered.shift();
      }
      await sleep(systemTime, pauseMs);
    }
  }

  /** @returns the status, or 0 if the connection ended first. */
  async #post(batch: readonly number[]): Promise<number> {
    const { ledger, tag } = this.#options;
    const events = batch.map((number) => ({ event_id: `${tag}-${number}`, name: 'purchase', device_id: `dev-${tag}` }));
    const status = await this.#exchange(JSON.stringify({ events }));
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    if (status === 0) this.cut++;
    if (status === 202) for (const number of batch) ledger.settle(number, 'kept');
    return status;
  }

  #exchange(body: string): Promise<number> {
    const { ports, apiKey } = this.#options;
    const port = ports[this.#posts++ % ports.length];
    return new Promise((settle) => {
      const headers = { 'x-api-key': apiKey, 'content-type': 'application/json', 'content-length': body.length };
      const sent = request(
        { host: '127.0.0.1', port, path: '/v1/sdk/events', method: 'POST', agent: this.#agent, headers },
        (response) => {
          response.resume();
          response.once('error', () => settle(0));
          response.once('end', () => settle(response.statusCode ?? 0));
          response.once('close', () => settle(0));
        },
      );
      sent.setTimeout(patienceMs, () => sent.destroy());
      sent.once('error', () => settle(0));
      sent.end(body);
    });
  }
}
