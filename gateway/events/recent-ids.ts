/**
 * Ids of events that this process has had journalled lately, so that a client's quick retry is told so and is not
 * written again. What counts once is decided behind the log, for all processes and across crashes; this only spares work.
 * An id is noted with its batch before the journal has it, and counts as known once the batch is kept: one look-up and one
 * entry an event, and nothing to undo when the journal refuses.
 */

/** Few enough to stay in the processor's cache: a quick retry comes within moments. */
const IDS_MAX = 32_768;

/** Events that are kept or refused together. */
export interface RecentBatch {
  isKept: boolean;
}

type Ids = Map<string, RecentBatch>;
const none: ReadonlyMap<string, RecentBatch> = new Map();

export class RecentIds {
  #young = new Map<string, Ids>();
  #old = new Map<string, Ids>();
  #size = 0;

  /** The ids of an app, with room for a batch of so many. To be used at once, before any await. */
  of(appId: string, count: number): RecentIdsOfApp {
    if (this.#size + count > IDS_MAX / 2) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#size = 0;
    }
    let ids = this.#young.get(appId);
    if (!ids) {
      ids = new Map();
      this.#young.set(appId, ids);
    }
    this.#size += count;
    return new RecentIdsOfApp(ids, this.#old.get(appId) ?? none);
  }
}

export class RecentIdsOfApp {
  readonly #young: Ids;
  readonly #old: ReadonlyMap<string, RecentBatch>;

  constructor(young: Ids, old: ReadonlyMap<string, RecentBatch>) {
    this.#young = young;
    this.#old = old;
  }

  /** False for an id that was kept, or that stands in this batch already. One that another batch waits to keep is new. */
  isNew(eventId: string, batch: RecentBatch): boolean {
    const before = this.#young.get(eventId) ?? this.#old.get(eventId);
    if (before !== undefined && (before.isKept || before === batch)) return false;
    this.#young.set(eventId, batch);
    return true;
  }
}
