/**
 * Clients that send all events, and a share of the requests again: immediately, later, or after all the others, with
 * the events of a request in another order. A request that is refused or not answered is sent again with the same ids
 * until it is answered with 202.
 */
import { Agent, request } from 'node:https';
import { sleep, systemTime } from '#common/time.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';

export interface RepeatedLoadOptions {
  readonly port: number;
  readonly apiKey: string;
  readonly event: (number: number) => object;
  readonly events: number;
  readonly batchEvents: number;
  readonly senders: number;
  /** Share of the requests that are sent again. */
  readonly repeats: number;
  readonly random: SeededRandom;
}

interface Sending {
  /** The request contains the events from this number on. */
  readonly from: number;
  readonly isRepeat: boolean;
}

const retryMs = 150;
const patienceMs = 30_000;

export class RepeatedLoad {
  /** Answers by status; 0 is a connection that ended first. */
  readonly answers = new Map<number, number>();
  /** Sums of the counts in the answers. */
  accepted = 0;
  duplicates = 0;
  rejected = 0;
  repeats = 0;
  readonly #options: RepeatedLoadOptions;
  readonly #agent: Agent;
  readonly #plan: Sending[];
  #next = 0;

  constructor(options: RepeatedLoadOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: options.senders });
    this.#plan = planOf(options);
  }

  get requests(): number {
    return this.#plan.length;
  }

  /** From 0 to 1. */
  get progress(): number {
    return Math.min(1, this.#next / this.#plan.length);
  }

  /** Resolves once every request was answered with 202. */
  async run(): Promise<void> {
    await Promise.all(Array.from({ length: this.#options.senders }, () => this.#send()));
    this.#agent.destroy();
  }

  async #send(): Promise<void> {
    for (;;) {
      const sending = this.#plan[this.#next++];
      if (!sending) return;
      if (sending.isRepeat) this.repeats++;
      const body = this.#body(sending);
      while ((await this.#post(body)) !== 202) await sleep(systemTime, retryMs);
    }
  }

  #body({ from, isRepeat }: Sending): string {
    const { events, batchEvents, event, random } = this.#options;
    const numbers = Array.from({ length: Math.min(batchEvents, events - from + 1) }, (_, at) => from + at);
    return JSON.stringify({ events: (isRepeat ? shuffled(numbers, random) : numbers).map(event) });
  }

  #post(body: string): Promise<number> {
    const { port, apiKey } = this.#options;
    const headers = {
      'x-api-key': apiKey,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    return new Promise<number>((settle) => {
      let isOver = false;
      const once = (status: number) => {
        if (isOver) return;
        isOver = true;
        this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
        settle(status);
      };
      const sent = request(
        { host: '127.0.0.1', port, path: '/v1/sdk/events', method: 'POST', agent: this.#agent, headers },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk: string) => {
            text += chunk;
          });
          response.once('error', () => once(0));
          response.once('close', () => once(0));
          response.once('end', () => {
            if (response.statusCode === 202 && !isOver) this.#count(text);
            once(response.statusCode ?? 0);
          });
        },
      );
      sent.setTimeout(patienceMs, () => sent.destroy());
      sent.once('error', () => once(0));
      sent.end(body);
    });
  }

  #count(text: string): void {
    const answer: { accepted: number; duplicates: number; rejected: number } = JSON.parse(text);
    this.accepted += answer.accepted;
    this.duplicates += answer.duplicates;
    this.rejected += answer.rejected;
  }
}

/**
 * A third of the repeats follows immediately, a third comes at a random later time, a third after everything else was
 * sent.
 */
function planOf({ events, batchEvents, repeats, random }: RepeatedLoadOptions): Sending[] {
  const firsts = Array.from({ length: Math.ceil(events / batchEvents) }, (_, at) => at * batchEvents + 1);
  const repeated = shuffled(firsts, random).slice(0, Math.round(firsts.length * repeats));
  const after = new Map<number, number[]>();
  const last: number[] = [];
  for (const [at, from] of repeated.entries()) {
    const own = Math.floor(from / batchEvents);
    const place = at % 3 === 0 ? own : random.between(own, firsts.length - 1);
    if (at % 3 === 2) last.push(from);
    else after.set(place, [...(after.get(place) ?? []), from]);
  }
  const repeat = (from: number) => ({ from, isRepeat: true });
  const plan = firsts.flatMap((from, at) => [{ from, isRepeat: false }, ...(after.get(at) ?? []).map(repeat)]);
  return [...plan, ...last.map(repeat)];
}

function shuffled(numbers: readonly number[], random: SeededRandom): number[] {
  return numbers
    .map((number) => [random.next(), number] as const)
    .sort(([a], [b]) => a - b)
    .map(([, number]) => number);
}
