/**
 * Receives the copies of postbacks that Apple's devices send to an app's host. A device that gets no 200 tries again,
 * up to nine times in nine days; for AdAttributionKit, only after a 500. So every temporary failure is answered with
 * 500. A copy that belongs to no app of the host's organization gets the same answer as a stored copy: a difference
 * would reveal which apps have the same owner.
 */
import type { Clock } from '#common/clock.ts';
import { limitAddress } from '#common/http/peer.ts';
import type { HttpResponse } from '#common/http/uws.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import { within } from '#common/links/snapshot-source.ts';
import { LocalWindows } from '#common/rate-limit.ts';
import { type AdFramework, type AdPostback, adFrameworks } from './ad-postback.ts';
import { readAdAttributionKitPostback } from './adattributionkit-postback.ts';
import type { AppleKeys } from './apple-keys.ts';
import type { Receiver, Sender } from './receiver.ts';
import { readSkadnetworkPostback } from './skadnetwork-postback.ts';
import { isHost } from './visitor.ts';

export const adPostbackLimits = {
  bodyBytesMax: 8_192,
  /** Maximum per minute and process, for one address (which many phones may share) and in total. */
  perAddressMax: 300,
  perProcessMax: 3_000,
  /** Maximum unverified postbacks of an app, per minute and process; Postgres limits them per day. */
  unverifiedMax: 30,
  storingMax: 4,
  storeMs: 1_000,
} as const;

export const adPostbackOutcomes = [
  ...(['stored', 'stored_unverified', 'known', 'other_app', 'no_app', 'invalid', 'too_large'] as const),
  ...(['rate_limited', 'limit', 'limit_unverified', 'busy', 'unavailable'] as const),
] as const;
export type AdPostbackOutcome = (typeof adPostbackOutcomes)[number];

const statusOf = (outcome: AdPostbackOutcome): string => {
  switch (outcome) {
    case 'stored':
    case 'stored_unverified':
    case 'known':
    case 'other_app':
    case 'limit_unverified':
      return '200 OK';
    case 'no_app':
      return '404 Not Found';
    case 'invalid':
      return '400 Bad Request';
    case 'too_large':
      return '413 Payload Too Large';
    default:
      return '500 Internal Server Error';
  }
};

const readers: Readonly<Record<AdFramework, (body: string, keys: AppleKeys) => AdPostback | null>> = {
  skadnetwork: readSkadnetworkPostback,
  adattributionkit: readAdAttributionKitPostback,
};

export interface AdPostbackParts {
  readonly apps: Pick<LinkCache['apps'], 'get' | 'load'>;
  readonly db: { query(sql: string, values: readonly unknown[]): Promise<readonly object[]> };
  readonly keys: AppleKeys;
  readonly clock: Clock;
}

const store = 'SELECT signpost_store_ad_postback($1, $2, $3) AS outcome';
type StoreOutcome = 'stored' | 'known' | 'other_app' | 'limit';

export class AdPostbacks {
  readonly counters = Object.fromEntries(adPostbackOutcomes.map((one) => [one, 0])) as Record<
    AdPostbackOutcome,
    number
  >;
  readonly #parts: AdPostbackParts;
  readonly #windows = new LocalWindows();
  #storing = 0;

  constructor(parts: AdPostbackParts) {
    this.#parts = parts;
  }

  receive(framework: AdFramework, res: HttpResponse, sender: Sender, isLast: () => boolean): void {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let isOver = false;
    let isAborted = false;
    res.onAborted(() => {
      isAborted = true;
    });
    const answer = (outcome: AdPostbackOutcome, mustEnd = false) => {
      this.counters[outcome]++;
      if (!isAborted) res.cork(() => send(res, statusOf(outcome), mustEnd || isLast()));
    };
    res.onData((chunk, isEnd) => {
      if (isOver) return;
      bytes += chunk.byteLength;
      // The rest of an oversized body must not be read as a request, so the connection ends.
      if (bytes > adPostbackLimits.bodyBytesMax) {
        isOver = true;
        answer('too_large', true);
        return;
      }
      chunks.push(Buffer.from(chunk.slice(0)));
      if (!isEnd) return;
      isOver = true;
      void this.#take(framework, sender, Buffer.concat(chunks).toString()).then((outcome) => answer(outcome));
    });
  }

  /** Never rejects. */
  async #take(framework: AdFramework, { host, ip }: Sender, body: string): Promise<AdPostbackOutcome> {
    const { apps, clock, keys } = this.#parts;
    const nowMs = clock();
    // Checked first, so that an address over its limit does not use up the limit of all.
    if (this.#windows.take(limitAddress(ip), nowMs).count > adPostbackLimits.perAddressMax) return 'rate_limited';
    if (this.#windows.take('', nowMs).count > adPostbackLimits.perProcessMax) return 'rate_limited';
    if (!isHost(host)) return 'no_app';
    const known = apps.get(host, nowMs);
    const app = known === undefined ? await apps.load(host) : known;
    if (app === undefined) return 'unavailable';
    if (app === null) return 'no_app';
    const postback = readers[framework](body, keys);
    if (postback === null) return 'invalid';
    if (postback.unverified_reason !== null) {
      const { count } = this.#windows.take(app.id, nowMs);
      if (count > adPostbackLimits.unverifiedMax) return 'rate_limited';
    }
    return this.#store(app.id, postback);
  }

  async #store(hostApp: string, { app_store_id, ...fields }: AdPostback): Promise<AdPostbackOutcome> {
    if (this.#storing >= adPostbackLimits.storingMax) return 'busy';
    this.#storing++;
    try {
      const storing = this.#parts.db.query(store, [hostApp, app_store_id, JSON.stringify(fields)]);
      const [row] = (await within(storing, adPostbackLimits.storeMs)) as { outcome: StoreOutcome }[];
      if (row?.outcome === 'stored') return fields.unverified_reason === null ? 'stored' : 'stored_unverified';
      // A 500 would only make the device send it again, and would reveal that the app has the same owner.
      if (row?.outcome === 'limit' && fields.unverified_reason !== null) return 'limit_unverified';
      return row?.outcome ?? 'unavailable';
    } catch {
      return 'unavailable';
    } finally {
      this.#storing--;
    }
  }
}

/** The receivers for Apple's paths, with and without a trailing slash. */
export function adPostbackReceivers(postbacks: AdPostbacks): [string, Receiver][] {
  return adFrameworks.flatMap((framework) => {
    const folder = framework === 'skadnetwork' ? 'skadnetwork' : 'appattribution';
    const path = `/.well-known/${folder}/report-attribution`;
    const receiver: Receiver = { receive: (...request) => postbacks.receive(framework, ...request) };
    return [path, `${path}/`].map((one): [string, Receiver] => [one, receiver]);
  });
}

function send(res: HttpResponse, status: string, isLast: boolean): void {
  res.writeStatus(status).writeHeader('Cache-Control', 'no-store').writeHeader('X-Content-Type-Options', 'nosniff');
  res.endWithoutBody(0, isLast);
}
