/**
 * An app's server that sends events in batches, or installs, and behaves as clients do: a request that was refused or not answered is
 * sent again with the same ids until it is accepted, and now and then an answered batch is sent once more.
 */
import { Agent, request } from 'node:https';
import { sleep, systemTime } from '#common/time.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import type { Ledger } from './ledger.ts';

/** What is sent where, and the statuses that accept it. A batch of installs is one install. */
const requests = {
  events: {
    path: '/v1/sdk/events',
    accepted: [202],
    body: (ids: readonly string[], deviceId: string) => ({
      events: ids.map((event_id) => ({ event_id, name: 'purchase', device_id: deviceId })),
    }),
  },
  installs: {
    path: '/v1/sdk/install',
    accepted: [200, 201],
    body: ([id]: readonly string[]) => ({ platform: 'android', install_id: id, device_id: id }),
  },
};

export interface EventLoadOptions {
  /** events if absent. */
  readonly kind?: keyof typeof requests;
  /** Addresses of gateways on several hosts, this one's if absent. Addresses may be added and removed. */
  readonly addresses?: readonly string[];
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
    // The agent's timeout covers connecting too.
    const agent = { keepAlive: true, rejectUnauthorized: false, maxSockets: options.senders, timeout: patienceMs };
    this.#agent = new Agent(agent);
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
      while (!(await this.#post(batch)) && Date.now() < this.#givesUpAt) await sleep(systemTime, retryMs);
      if (!repeat) {
        this.#remembered.push(batch);
        if (this.#remembered.length > memoryMax) this.#remembered.shift();
      }
      await sleep(systemTime, pauseMs);
    }
  }

  /** @returns whether it was accepted. A connection that ended first counts as status 0. */
  async #post(batch: readonly number[]): Promise<boolean> {
    const { ledger, tag, kind = 'events' } = this.#options;
    const { path, body, accepted } = requests[kind];
    const ids = batch.map((number) => `${tag}-${number}`);
    const status = await this.#exchange(path, JSON.stringify(body(ids, `dev-${tag}`)));
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    if (status === 0) this.cut++;
    const isAccepted = accepted.includes(status);
    if (isAccepted) for (const number of batch) ledger.settle(number, 'kept');
    return isAccepted;
  }

  #exchange(path: string, body: string): Promise<number> {
    const { ports, apiKey, addresses = ['127.0.0.1'] } = this.#options;
    const turn = this.#posts++;
    const [host, port] = [addresses[turn % addresses.length], ports[turn % ports.length]];
    return new Promise((settle) => {
      const headers = { 'x-api-key': apiKey, 'content-type': 'application/json', 'content-length': body.length };
      const sent = request({ host, port, path, method: 'POST', agent: this.#agent, headers }, (response) => {
        response.resume();
        response.once('error', () => settle(0));
        response.once('end', () => settle(response.statusCode ?? 0));
        response.once('close', () => settle(0));
      });
      sent.setTimeout(patienceMs, () => sent.destroy());
      sent.once('error', () => settle(0));
      sent.end(body);
    });
  }
}
