/** Finds clicks that Redis has lost: asks ingest over NATS, which queries ClickHouse. */
import { LRUCache } from 'lru-cache';
import { type ArchiveAnswer, readArchiveAnswer } from '#common/attribution/click-archive.ts';
import { DAY_MS } from '#common/durations.ts';
import { timeOfId } from '#common/ids.ts';
import type { Nats } from '#common/stores/nats.ts';
import { CLICK_KNOWN_WITHIN_MS } from './young-clicks.ts';

export interface ClickLookup {
  /** The click and its device; null if there is none or the look-up failed. `clickId` is well-formed. */
  find(appId: string, clickId: string): Promise<ArchiveAnswer>;
}

/** For an edge without a look-up: clicks that Redis has lost are not found. */
export const noArchive: ClickLookup = { find: () => Promise.resolve(null) };

const TIMEOUT_MS = 1_000;
const OPEN_MAX = 50;
const AGE_MAX_MS = 91 * DAY_MS;

export class NatsClickArchive implements ClickLookup {
  readonly #absent = new LRUCache<string, true>({ max: 50_000, ttl: 60_000 });
  #nats: Nats | null = null;
  #open = 0;

  /** @param nats may connect at any later time; until then nothing is found. */
  constructor(nats: Promise<Nats>) {
    nats.then(
      (there) => {
        this.#nats = there;
      },
      () => undefined,
    );
  }

  async find(appId: string, clickId: string): Promise<ArchiveAnswer> {
    const ageMs = Date.now() - timeOfId(clickId);
    const key = `${appId} ${clickId}`;
    if (!this.#nats?.isConnected || this.#open >= OPEN_MAX || ageMs > AGE_MAX_MS || this.#absent.has(key)) return null;
    this.#open++;
    try {
      const question = Buffer.from(JSON.stringify({ app_id: appId, click_id: clickId }));
      const message = await this.#nats.request(this.#nats.names.archive, question, TIMEOUT_MS);
      const answer = message?.status === 0 ? readArchiveAnswer(message.bytes) : undefined;
      if (answer === null && ageMs > CLICK_KNOWN_WITHIN_MS) this.#absent.set(key, true);
      return answer ?? null;
    } finally {
      this.#open--;
    }
  }
}
