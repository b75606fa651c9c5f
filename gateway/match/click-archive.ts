/** Finds clicks that Redis does not have: asks ingest over NATS, which queries ClickHouse. */
import { LRUCache } from 'lru-cache';
import { type ArchiveAnswer, type ArchiveQuestion, readArchiveAnswer } from '#common/attribution/click-archive.ts';
import { timeOfId } from '#common/ids.ts';
import type { Nats } from '#common/stores/nats.ts';
import { CLICK_KNOWN_WITHIN_MS } from './young-clicks.ts';

export interface ClickLookup {
  /** `click_id` must be well-formed. Never fails. */
  find(question: ArchiveQuestion): Promise<ArchiveAnswer>;
}

const TIMEOUT_MS = 1_000;
const OPEN_MAX = 500;
/** Longer than any attribution window. */
const AGE_MAX_MS = 91 * 86_400_000;

export class NatsClickArchive implements ClickLookup {
  /** Since the start of the process. */
  readonly counters = { found: 0, unknown: 0, pending: 0, unavailable: 0 };
  readonly #absent = new LRUCache<string, true>({ max: 50_000, ttl: 60_000 });
  #nats: Nats | null = null;
  #open = 0;

  /** @param nats may connect at any later time; until then, lookups return `unavailable`. */
  constructor(nats: Promise<Nats>) {
    nats.then(
      (there) => {
        this.#nats = there;
      },
      () => undefined,
    );
  }

  async find(question: ArchiveQuestion): Promise<ArchiveAnswer> {
    const answer = await this.#find(question);
    this.counters[typeof answer === 'string' ? answer : 'found']++;
    return answer;
  }

  async #find(question: ArchiveQuestion): Promise<ArchiveAnswer> {
    const ageMs = Date.now() - timeOfId(question.click_id);
    const key = `${question.app_id} ${question.click_id}`;
    if (ageMs > AGE_MAX_MS || this.#absent.has(key)) return 'unknown';
    if (!this.#nats?.isConnected || this.#open >= OPEN_MAX) return 'unavailable';
    this.#open++;
    try {
      const message = await this.#nats.request(
        this.#nats.names.archive,
        Buffer.from(JSON.stringify(question)),
        TIMEOUT_MS,
      );
      const answer = message?.status === 0 ? readArchiveAnswer(message.bytes) : 'unavailable';
      if (answer === 'unknown' && ageMs > CLICK_KNOWN_WITHIN_MS) this.#absent.set(key, true);
      return answer;
    } finally {
      this.#open--;
    }
  }
}
