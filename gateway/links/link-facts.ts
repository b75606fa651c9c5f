/**
 * The data of a link that attribution needs, by id: from process memory, otherwise from Postgres. Changes arrive
 * through the link cache; while that is not subscribed to changes, memory is trusted for one second.
 */
import { LRUCache } from 'lru-cache';
import type { UtmField } from '#common/campaign-fields.ts';
import type { Clock } from '#common/clock.ts';
import { HOUR_MS } from '#common/durations.ts';
import type { LinkCache } from '#common/links/link-cache.ts';
import type { LinkChange } from '#common/links/link-changes.ts';
import { linkKey } from '#common/links/link-snapshot.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';

const LINKS_MAX = 50_000;
const FRESH_MS = 30_000;
const FRESH_UNSUBSCRIBED_MS = 1_000;
/** While Postgres is unavailable, known links are used for this long. */
const STALE_MS = HOUR_MS;
const ABSENT_FRESH_MS = 2_000;
/** Maximum number of changes remembered while links are being read; beyond it, everything is read again. */
const CHANGES_MAX = 1_000;

/** Includes deleted and archived links: a click on one still happened. */
export interface LinkFacts extends Readonly<Record<UtmField, string | null>> {
  readonly id: string;
  readonly app_id: string;
  readonly host: string;
  readonly short_code: string;
  readonly path: string;
  readonly campaign: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

const byIds = `
  SELECT l.id, l.app_id, a.host, l.short_code, l.path, l.campaign, l.data,
         l.utm_source, l.utm_medium, l.utm_campaign, l.utm_term, l.utm_content
    FROM links l JOIN apps a ON a.id = l.app_id
   WHERE l.id = ANY ($1) AND l.app_id = $2`;

interface Entry {
  readonly facts: LinkFacts | null;
  readonly readMs: number;
  isDoubted: boolean;
}

function urlOf({ host, short_code }: LinkFacts): string {
  return linkKey(host, short_code);
}

export class LinkIndex {
  readonly #db: Queries;
  readonly #clock: Clock;
  readonly #known: LRUCache<string, Entry>;
  /** Keys of entries by the URL of their link; changes refer to links by URL. */
  readonly #byUrl = new Map<string, string>();
  readonly #cache: Pick<LinkCache, 'isSubscribed' | 'watch'>;
  #reading = 0;
  /** Links that changed while links were being read, so that the result may be outdated. */
  readonly #changedMeanwhile = new Set<string>();
  #validSinceMs = 0;

  constructor(db: Queries, clock: Clock, cache: Pick<LinkCache, 'isSubscribed' | 'watch'>) {
    this.#db = db;
    this.#clock = clock;
    this.#cache = cache;
    this.#known = new LRUCache({
      max: LINKS_MAX,
      dispose: ({ facts }, name) => {
        const url = facts ? urlOf(facts) : '';
        if (this.#byUrl.get(url) === name) this.#byUrl.delete(url);
      },
    });
    cache.watch({ changed: (kind, key) => this.#changed(kind, key), missed: () => this.#doubtAll() });
  }

  /**
   * Links of one app by id; null for an id that is not one of its links. An id is missing from the result if it could
   * not be looked up because Postgres is unavailable.
   */
  async ofApp(appId: string, ids: readonly string[]): Promise<Map<string, LinkFacts | null>> {
    const found = new Map<string, LinkFacts | null>();
    const missing: string[] = [];
    const nowMs = this.#clock();
    const presentFreshMs = this.#cache.isSubscribed ? FRESH_MS : FRESH_UNSUBSCRIBED_MS;
    for (const id of ids) {
      const entry = this.#known.get(`${appId} ${id}`);
      const freshMs = entry?.facts ? presentFreshMs : ABSENT_FRESH_MS;
      if (entry && !entry.isDoubted && entry.readMs >= this.#validSinceMs && Math.abs(nowMs - entry.readMs) < freshMs)
        found.set(id, entry.facts);
      else missing.push(id);
    }
    if (missing.length > 0) await this.#read(appId, missing, found, nowMs);
    return found;
  }

  /** One link of the app; null if it has no such link, undefined if it could not be looked up. */
  async find(appId: string, id: string): Promise<LinkFacts | null | undefined> {
    return id === '' ? null : (await this.ofApp(appId, [id])).get(id);
  }

  async #read(appId: string, ids: string[], found: Map<string, LinkFacts | null>, nowMs: number): Promise<void> {
    this.#reading++;
    try {
      const rows = await this.#db.query<LinkFacts>(byIds, [ids, appId], 'links_of_app');
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const id of ids) {
        const facts = byId.get(id) ?? null;
        found.set(id, facts);
        this.#keep(`${appId} ${id}`, facts, nowMs);
      }
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      for (const id of ids) {
        const entry = this.#known.get(`${appId} ${id}`);
        if (entry?.facts && Math.abs(nowMs - entry.readMs) < STALE_MS) found.set(id, entry.facts);
      }
    } finally {
      if (--this.#reading === 0) this.#changedMeanwhile.clear();
    }
  }

  #keep(name: string, facts: LinkFacts | null, readMs: number): void {
    const url = facts ? urlOf(facts) : '';
    this.#known.set(name, { facts, readMs, isDoubted: this.#changedMeanwhile.has(url) });
    if (facts) this.#byUrl.set(url, name);
  }

  #changed(kind: LinkChange['kind'], key: string): void {
    if (kind === 'app') this.#doubtAll();
    if (this.#changedMeanwhile.size >= CHANGES_MAX) this.#doubtAll();
    if (this.#reading > 0) this.#changedMeanwhile.add(key);
    const entry = this.#known.peek(this.#byUrl.get(key) ?? '');
    if (entry) entry.isDoubted = true;
  }

  /** Every known link is looked up again before its next use, but stays usable if Postgres is unavailable. */
  #doubtAll(): void {
    this.#validSinceMs = this.#clock() + 1;
    this.#changedMeanwhile.clear();
  }
}
