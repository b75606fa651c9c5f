/**
 * Which partition of the log gets the clicks of this process: each in turn, for a second. So the owners of partitions share the
 * clicks evenly, however few redirectors there are; and all clicks of a turn are in one lane, so messages and batches stay as
 * large as with one partition. Any partition may store any click: clicks have no repeats that must meet.
 */
import { randomInt } from 'node:crypto';
import { SECOND_MS } from '#common/durations.ts';
import type { Journal, JournalLane } from '#common/journal/journal.ts';

const turnMs = SECOND_MS;

export class ClickLanes {
  readonly #lanes: readonly JournalLane[];
  readonly #first: number;

  /** @param first differs from process to process, so that they are not all at the same partition. */
  constructor(journal: Pick<Journal, 'lane'>, partitions: number, first = randomInt(partitions)) {
    this.#lanes = Array.from({ length: partitions }, (_, partition) => journal.lane('click', partition));
    this.#first = first;
  }

  /** @param nowMs wall clock; whatever it says, there is a lane. */
  at(nowMs: number): JournalLane {
    const lane = this.#lanes[(Math.floor(nowMs / turnMs) + this.#first) % this.#lanes.length];
    if (lane === undefined) throw new Error(`no lane for clicks at ${nowMs}`);
    return lane;
  }
}
