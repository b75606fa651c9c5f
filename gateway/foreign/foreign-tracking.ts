/** Handles a batch from another service's client: stores aliases, counts calls, and tracks events. */
import { isStorableText } from '#common/http/json.ts';
import { Rejection, unavailable } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import { aliasesMax } from '#common/log/event-record.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { type ForeignEvent, readEvents } from '#gateway/events/batch.ts';
import type { EventTracking, Sender, Tracked } from '#gateway/events/tracking.ts';
import type { AliasStore } from './alias-store.ts';
import type { Alias, Fields, ForeignCall, ForeignItem } from './fields.ts';

export class ForeignTracking {
  /** Since the start of the process. */
  readonly counters: Record<ForeignCall, number> = {
    ...{ identify: 0, group: 0, alias: 0, page: 0, screen: 0 },
    automatic: 0,
  };
  readonly #events: EventTracking;
  readonly #aliases: AliasStore;

  constructor(events: EventTracking, aliases: AliasStore) {
    this.#events = events;
    this.#aliases = aliases;
  }

  /** Errors refer to an item by its index in the batch. */
  async track(items: readonly ForeignItem[], sender: Sender): Promise<Tracked | Rejection> {
    const { app_id } = sender.app;
    const places: number[] = [];
    const foreign: ForeignEvent[] = [];
    const calls: Extract<ForeignItem, { call: unknown }>[] = [];
    for (const [at, item] of items.entries()) {
      if ('call' in item) calls.push(item);
      else places[foreign.push(item) - 1] = at;
    }
    const aliases = calls.flatMap(({ alias }) => alias ?? []);
    if (aliases.length > 0 && !(await this.#keep(app_id, aliases))) {
      return unavailable('Aliases cannot be stored at the moment. Send the batch again later.');
    }
    const joined = await this.#joined(app_id, foreign);
    const tracked = await this.#events.track(readEvents(joined, sender), sender);
    if (tracked instanceof Rejection) return tracked;
    for (const { call } of calls) this.counters[call]++;
    const errors = tracked.errors.map((error) => ({ ...error, index: places[error.index] ?? error.index }));
    return { ...tracked, errors };
  }

  async #keep(appId: string, aliases: readonly Alias[]): Promise<boolean> {
    try {
      await this.#aliases.add(appId, aliases);
      return true;
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return false;
    }
  }

  /**
   * Adds to each event the aliases of its user and its device. If Postgres is unavailable, the event keeps only those
   * that the client sent.
   */
  async #joined(appId: string, foreign: readonly ForeignEvent[]): Promise<readonly ForeignEvent[]> {
    const names = new Set(foreign.flatMap(({ event }) => (isObject(event) ? namesIn(event) : [])));
    if (names.size === 0) return foreign;
    let known: Map<string, string[]>;
    try {
      known = await this.#aliases.of(appId, [...names]);
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return foreign;
    }
    if (known.size === 0) return foreign;
    return foreign.map((one) => {
      const { event, extras } = one;
      if (extras === null || !isObject(event)) return one;
      const aliases = [...extras.aliases, ...namesIn(event).flatMap((name) => known.get(name) ?? [])];
      return { ...one, extras: { ...extras, aliases: [...new Set(aliases)].slice(0, aliasesMax) } };
    });
  }
}

/** The device comes first, because it identifies the install more specifically. */
function namesIn({ device_id, user_id }: Fields): string[] {
  return [device_id, user_id].filter((name) => typeof name === 'string' && isStorableText(name)) as string[];
}
