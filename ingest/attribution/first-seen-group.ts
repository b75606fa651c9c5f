/**
 * The known ids of all partitions of a process. After LOG_PARTITIONS changes, a record may be in a partition other than
 * the one its id belongs to (a stray), while a repeat of it is in that one. So batches are checked one at a time, and
 * after the first stray, each partition also checks the recent ids of the others.
 */
import { FirstSeen, type FirstSeenOptions, newIdFilters, type SeenTogether } from './first-seen.ts';

export interface FirstSeenGroupOptions extends Omit<FirstSeenOptions, 'partition' | 'filters' | 'together'> {
  /** Called before strays are checked; returns once this process owns every partition. */
  readonly allowStrays: (partition: number) => Promise<void>;
}

export class FirstSeenGroup implements SeenTogether {
  readonly #options: FirstSeenGroupOptions;
  readonly #filters = newIdFilters();
  /** Never deleted: ids in a partition's memory count until its batch is decided, even by another owner. */
  readonly #all = new Map<number, FirstSeen>();
  #haveStraysCome = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: FirstSeenGroupOptions) {
    this.#options = options;
  }

  get all(): Iterable<FirstSeen> {
    return this.#all.values();
  }

  get haveStraysCome(): boolean {
    return this.#haveStraysCome;
  }

  at(partition: number): FirstSeen {
    let known = this.#all.get(partition);
    if (!known) {
      known = new FirstSeen({ ...this.#options, partition, filters: this.#filters, together: this });
      this.#all.set(partition, known);
    }
    return known;
  }

  async allowStrays(partition: number): Promise<void> {
    this.#haveStraysCome = true;
    await this.#options.allowStrays(partition);
  }

  oneAfterTheOther<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work, work);
    this.#last = mine.catch(() => undefined);
    return mine;
  }
}
