/**
 * Distributes the clicks of this process over the log partitions: each partition in turn, for one second. So the owners
 * of partitions share the clicks evenly, however few redirectors there are. All clicks of a turn are in one lane, so
 * messages and batches stay as large as with one partition. Any partition may store any click, because clicks are not
 * deduplicated by id.
 */
import { randomInt } from 'node:crypto';
import { SECOND_MS } from '#common/durations.ts';
import type { Journal, JournalLane } from '#common/journal/journal.ts';

const turnMs = SECOND_MS;

export class ClickLanes {
  readonly #lanes: readonly JournalLane[];
  readonly #first: number;

  /** @param first differs between processes, so that they do not all use the same partition. */
  constructor(journal: Pick<Journal, 'lane'>, partitions: number, first = randomInt(partitions)) {
    this.#lanes = Array.from({ length: partitions }, (_, partition) => journal.lane('click', partition));
    this.#first = first;
  }

  /** @param nowMs wall clock; any value gives a lane. */
  at(nowMs: number): JournalLane {
    const lane = this.#lanes[(Math.floor(nowMs / turnMs) + this.#first) % this.#lanes.length];
    if (lane === undefined) throw new Error(`no lane for clicks at ${nowMs}`);
    return lane;
  }
}
