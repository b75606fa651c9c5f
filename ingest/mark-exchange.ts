/**
 * Messages between the owner of a partition and the publishers: the owner announces its marks, publishers the floors of
 * their journals.
 */
import { encodeAnnouncements, type LaneFloor, type LaneMarks, laneKey } from '#common/log/marks.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import type { Time } from '#common/time.ts';

export interface MarkExchangeOptions {
  readonly partition: number;
  /** Included in every announcement. */
  readonly installationId: string;
  readonly nats: NatsClient;
  readonly time: Time;
  /** `elapsed()` at which the log had nothing that is not committed; `undefined` while unknown. */
  readonly committedAt: () => number | undefined;
}

const idleAnnounceMs = 1_000;
/** Enough, because publishers repeat their floors every few seconds. */
const floorsMax = 100_000;

export class MarkExchange {
  /** Stream time (epoch ms) from which on the log is read. */
  committedTo = 0;
  readonly #options: MarkExchangeOptions;
  /** By a clock that can't jump. */
  #announcedAt = Number.NEGATIVE_INFINITY;
  readonly #floors = new Map<string, LaneFloor>();

  constructor(options: MarkExchangeOptions) {
    this.#options = options;
  }

  announce(lanes: readonly LaneMarks[]): void {
    const { nats, partition, installationId: installation_id, time, committedAt } = this.#options;
    const now = time.elapsed();
    const at = committedAt();
    this.#announcedAt = now;
    const ago = at === undefined ? {} : { committed_ago: Math.ceil(now - at) };
    for (const bytes of encodeAnnouncements({ installation_id, partition, ...ago, lanes })) {
      nats.publish(nats.names.marks, bytes);
    }
  }

  /** Announces, at most once a second, that everything up to now is stored. */
  announceIdle(): void {
    if (this.#options.time.elapsed() - this.#announcedAt >= idleAnnounceMs) this.announce([]);
  }

  noteFloors(floors: readonly LaneFloor[]): void {
    for (const lane of floors) {
      if (lane.partition !== this.#options.partition || this.#floors.size >= floorsMax) continue;
      this.#floors.set(laneKey(lane.producer_id, lane), lane);
    }
  }

  /** The floors that publishers announced since the last call. */
  takeFloors(): LaneFloor[] {
    const floors = [...this.#floors.values()];
    this.#floors.clear();
    return floors;
  }
}
