/**
 * Ids of events that this process has had journalled lately, so that a client's quick retry is told so and is not
 * written again. What counts once is decided behind the log, for all processes and across crashes; this only spares work.
 */

/** Few enough to stay in the processor's cache: a quick retry comes within moments. */
const IDS_MAX = 32_768;
const none: ReadonlySet<string> = new Set();

export class RecentIds {
  #young = new Map<string, Set<string>>();
  #old = new Map<string, Set<string>>();
  #size = 0;

  /** The ids of an app, in two sets. */
  of(appId: string): readonly [ReadonlySet<string>, ReadonlySet<string>] {
    return [this.#young.get(appId) ?? none, this.#old.get(appId) ?? none];
  }

  /** Only after the journal has it: an id that is here is never written again. */
  add(appId: string, eventIds: readonly string[]): void {
    if (this.#size + eventIds.length > IDS_MAX / 2) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#size = 0;
    }
    let ids = this.#young.get(appId);
    if (!ids) {
      ids = new Set();
      this.#young.set(appId, ids);
    }
    for (const id of eventIds) ids.add(id);
    this.#size += eventIds.length;
  }
}
