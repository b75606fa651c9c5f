/** What attribution needs to know of a link, by its id: process memory, then Postgres. */
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import { PostgresUnavailable, type Queries } from '#common/postgres.ts';

const LINKS_MAX = 50_000;
const FRESH_MS = 30_000;
/** When Postgres is away, what was known is used for this long. */
const STALE_MS = 3_600_000;
const ABSENT_FRESH_MS = 2_000;

/** Deleted and archived links too: a click on one happened all the same. */
export interface LinkFacts {
  readonly id: string;
  readonly app_id: string;
  readonly host: string;
  readonly short_code: string;
  readonly path: string;
  readonly campaign: string | null;
  readonly title: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly utm_source: string | null;
  readonly utm_medium: string | null;
  readonly utm_campaign: string | null;
  readonly utm_term: string | null;
  readonly utm_content: string | null;
}

const byIds = `
  SELECT l.id, l.app_id, a.host, l.short_code, l.path, l.campaign, l.title, l.data,
         l.utm_source, l.utm_medium, l.utm_campaign, l.utm_term, l.utm_content
    FROM links l JOIN apps a ON a.id = l.app_id
   WHERE l.id = ANY ($1) AND l.app_id = $2`;

interface Entry {
  readonly facts: LinkFacts | null;
  readonly readMs: number;
}

export class LinkIndex {
  readonly #db: Queries;
  readonly #clock: Clock;
  readonly #known = new LRUCache<string, Entry>({ max: LINKS_MAX });

  constructor(db: Queries, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /**
   * Links of one app by id; null for an id that is none of its links. An id that is missing from the answer could not
   * be looked up, because Postgres is away.
   */
  async ofApp(appId: string, ids: readonly string[]): Promise<Map<string, LinkFacts | null>> {
    const found = new Map<string, LinkFacts | null>();
    const missing: string[] = [];
    const nowMs = this.#clock();
    for (const id of ids) {
      const entry = this.#known.get(`${appId} ${id}`);
      const freshMs = entry?.facts ? FRESH_MS : ABSENT_FRESH_MS;
      if (entry && nowMs - entry.readMs < freshMs) found.set(id, entry.facts);
      else missing.push(id);
    }
    if (missing.length > 0) await this.#read(appId, missing, found, nowMs);
    return found;
  }

  /** One link of the app; null when there is none by that id, undefined when it could not be looked up. */
  async find(appId: string, id: string): Promise<LinkFacts | null | undefined> {
    return id === '' ? null : (await this.ofApp(appId, [id])).get(id);
  }

  async #read(appId: string, ids: string[], found: Map<string, LinkFacts | null>, nowMs: number): Promise<void> {
    try {
      const rows = await this.#db.query<LinkFacts>(byIds, [ids, appId], 'links_of_app');
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const id of ids) {
        const facts = byId.get(id) ?? null;
        found.set(id, facts);
        this.#known.set(`${appId} ${id}`, { facts, readMs: nowMs });
      }
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      for (const id of ids) {
        const entry = this.#known.get(`${appId} ${id}`);
        if (entry?.facts && nowMs - entry.readMs < STALE_MS) found.set(id, entry.facts);
      }
    }
  }
}
