/**
 * Finds the clicks that events name: in Redis for some minutes, and in ClickHouse after that or if Redis has lost them.
 * An event gets the link of a click within its app's attribution window. The window is measured at the time of receipt,
 * so that a replay makes the same decision.
 */
import { LRUCache } from 'lru-cache';
import type { RecentClick } from '#common/attribution/click-lines.ts';
import { KEPT_BY_ID_MS, type RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS, SECOND_MS } from '#common/durations.ts';
import { isId, timeOfId } from '#common/ids.ts';
import type { EventRecord } from '#common/log/event-record.ts';
import { isRedisUnavailable, isReplyError } from '#common/stores/redis.ts';
import { systemTime, type Time } from '#common/time.ts';
import { defaultFacts, type KnownApps } from './known-apps.ts';
import { clicksPerQuestionMax, type StoredClicks } from './stored-clicks.ts';

const foundMax = 20_000;
const absentMax = 50_000;
/** An event may arrive before its click: a missing click is looked up again after this time. */
const absentMs = 5 * SECOND_MS;

type Naming = Pick<EventRecord, 'click_id' | 'app_id' | 'organization_id' | 'received_at'>;

export interface NamedClicksParts {
  /** Null without Redis. */
  readonly recent: Pick<RecentClicks, 'byIds'> | null;
  readonly stored: StoredClicks;
  readonly apps: Pick<KnownApps, 'of'>;
  readonly time?: Pick<Time, 'elapsed' | 'now'>;
}

export class NamedClicks {
  readonly #parts: NamedClicksParts;
  readonly #time: Pick<Time, 'elapsed' | 'now'>;
  readonly #found = new LRUCache<string, RecentClick>({ max: foundMax });
  /** By app and click: the time until which it is not looked up again. */
  readonly #absent = new LRUCache<string, number>({ max: absentMax });

  constructor(parts: NamedClicksParts) {
    this.#parts = parts;
    this.#time = parts.time ?? systemTime;
  }

  /** The clicks that were found, by id, whatever their app. @throws ClickHouseFailure, PostgresUnavailable */
  async of(events: readonly Naming[]): Promise<ReadonlyMap<string, RecentClick>> {
    const naming = events.filter(({ click_id }) => isId('clk', click_id));
    const known = new Map<string, RecentClick>();
    if (naming.length === 0) return known;
    const apps = await this.#parts.apps.of(new Set(naming.map(({ app_id }) => app_id)));
    const unknown = new Map<string, Naming>();
    for (const event of naming) {
      const { click_id, app_id, received_at } = event;
      const windowMs = (apps.get(app_id) ?? defaultFacts).attribution_window_hours * HOUR_MS;
      if (received_at - timeOfId(click_id) > windowMs) continue;
      const found = this.#found.get(click_id);
      if (found !== undefined) known.set(click_id, found);
      else unknown.set(`${app_id} ${click_id}`, event);
    }
    await this.#ask([...unknown.values()], known);
    return known;
  }

  async #ask(events: readonly Naming[], known: Map<string, RecentClick>): Promise<void> {
    const keep = (click: RecentClick | null) => {
      if (click === null) return;
      known.set(click.click_id, click);
      this.#found.set(click.click_id, click);
    };
    const now = this.#time.now();
    const young = [...new Set(events.map(({ click_id }) => click_id))].filter(
      (id) => now - timeOfId(id) < 2 * KEPT_BY_ID_MS,
    );
    for (const click of await this.#recent(young)) keep(click);
    const absent = (event: Naming) => (this.#absent.get(absentKey(event)) ?? 0) > this.#time.elapsed();
    const left = events.filter((event) => !known.has(event.click_id) && !absent(event));
    for (let from = 0; from < left.length; from += clicksPerQuestionMax) {
      const some = left.slice(from, from + clicksPerQuestionMax);
      const distinct = (of: (event: Naming) => string) => [...new Set(some.map(of))];
      const found = await this.#parts.stored.find({
        organizations: distinct(({ organization_id }) => organization_id),
        apps: distinct(({ app_id }) => app_id),
        ids: distinct(({ click_id }) => click_id),
      });
      found.forEach(keep);
      for (const event of some) {
        if (!known.has(event.click_id)) this.#absent.set(absentKey(event), this.#time.elapsed() + absentMs);
      }
    }
  }

  /** None if Redis does not answer. */
  async #recent(ids: readonly string[]): Promise<readonly (RecentClick | null)[]> {
    try {
      return (await this.#parts.recent?.byIds(ids)) ?? [];
    } catch (error) {
      if (!isRedisUnavailable(error) && !isReplyError(error)) throw error;
      return [];
    }
  }
}

/** Absence is cached per app: an id that one app makes up must stay available to others. */
function absentKey({ app_id, click_id }: Naming): string {
  return `${app_id} ${click_id}`;
}
