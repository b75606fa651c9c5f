/**
 * The app settings that ingest needs, cached from Postgres for some seconds; a change applies to records from then on.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import { SECOND_MS } from '#common/durations.ts';
import { within } from '#common/links/snapshot-source.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';

const freshMs = 15 * SECOND_MS;
const appsMax = 10_000;
const newAppWaitMs = 250;

export interface AppFacts {
  readonly attribution_window_hours: number;
  readonly probabilistic_window_hours: number;
  /** Whether the app exists on the platform; both are true while neither has been set. */
  readonly has_ios: boolean;
  readonly has_android: boolean;
}

/** Defaults for an app that Postgres does not have: a database restored from a backup may lack it. */
export const defaultFacts: AppFacts = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  has_ios: true,
  has_android: true,
};

/** Returns the facts of the apps that exist. */
export type ReadApps = (appIds: readonly string[]) => Promise<ReadonlyMap<string, AppFacts>>;

export function appsIn(postgres: Queries): ReadApps {
  return async (appIds) => {
    const rows = await postgres.query<AppFacts & { id: string }>(
      `SELECT id, coalesce((settings->>'attribution_window_hours')::integer, $2) AS attribution_window_hours,
              coalesce((settings->>'probabilistic_window_hours')::integer, $3) AS probabilistic_window_hours,
              (ios IS NOT NULL OR android IS NULL) AS has_ios, (android IS NOT NULL OR ios IS NULL) AS has_android
         FROM apps WHERE id = ANY ($1)`,
      [appIds, defaultFacts.attribution_window_hours, defaultFacts.probabilistic_window_hours],
      'facts_of_apps',
    );
    return new Map(rows.map(({ id, ...facts }) => [id, facts]));
  };
}

interface Known {
  readonly facts: AppFacts;
  readonly readMs: number;
}

export class KnownApps {
  readonly #read: ReadApps;
  readonly #clock: Clock;
  readonly #known = new LRUCache<string, Known>({ max: appsMax });
  #refreshing: Promise<void> | undefined;
  #failedMs = Number.NEGATIVE_INFINITY;

  constructor(read: ReadApps, clock: Clock) {
    this.#read = read;
    this.#clock = clock;
  }

  /** Facts of every app in the set. @throws PostgresUnavailable */
  async of(appIds: ReadonlySet<string>): Promise<ReadonlyMap<string, AppFacts>> {
    const stale = this.#staleOf(appIds);
    if (stale.length > 0) await this.#refresh(stale);
    return this.#factsOf(appIds);
  }

  /**
   * The last known facts, without waiting for Postgres and even while it is down. A new app waits briefly; after that
   * the defaults apply, which keep more than is needed.
   */
  async lastOf(appIds: ReadonlySet<string>): Promise<ReadonlyMap<string, AppFacts>> {
    const stale = this.#staleOf(appIds);
    if (stale.length > 0 && this.#refreshing === undefined && !this.#isFresh(this.#failedMs)) {
      this.#refreshing = this.#refresh(stale)
        .catch((error: unknown) => {
          if (!(error instanceof PostgresUnavailable)) throw error;
          this.#failedMs = this.#clock();
        })
        .finally(() => {
          this.#refreshing = undefined;
        });
    }
    if (this.#refreshing !== undefined && stale.some((id) => !this.#known.has(id))) {
      await within(this.#refreshing, newAppWaitMs).catch(() => undefined);
    }
    return this.#factsOf(appIds);
  }

  #staleOf(appIds: ReadonlySet<string>): string[] {
    return [...appIds].filter((id) => !this.#isFresh(this.#known.get(id)?.readMs ?? Number.NEGATIVE_INFINITY));
  }

  /** The clock may have been set back. */
  #isFresh(readMs: number): boolean {
    return Math.abs(this.#clock() - readMs) < freshMs;
  }

  async #refresh(appIds: readonly string[]): Promise<void> {
    const readMs = this.#clock();
    const read = await this.#read(appIds);
    for (const id of appIds) this.#known.set(id, { facts: read.get(id) ?? defaultFacts, readMs });
  }

  #factsOf(appIds: ReadonlySet<string>): ReadonlyMap<string, AppFacts> {
    return new Map([...appIds].map((id) => [id, this.#known.get(id)?.facts ?? defaultFacts]));
  }
}
