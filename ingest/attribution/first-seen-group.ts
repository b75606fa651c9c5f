/**
 * The ids of all partitions of a process. When LOG_PARTITIONS was changed, a record may be in another partition than its id belongs
 * to (a stray), while its repeat is in that one. So ids are checked one batch after the other, and from the first stray on each
 * partition looks into the recent ids of the others too.
 */
import { FirstSeen, type FirstSeenOptions, newIdFilters, type SeenTogether } from './first-seen.ts';

export interface FirstSeenGroupOptions extends Omit<FirstSeenOptions, 'partition' | 'filters' | 'together'> {
  /** Called before strays are checked; returns once this process owns every partition. */
  readonly allowStrays: (partition: number) => Promise<void>;
}

export class FirstSeenGroup implements SeenTogether {
  readonly #options: FirstSeenGroupOptions;
  readonly #filters = newIdFilters();
  /** Never deleted: what a partition has in memory counts until its batch is decided, even by another owner. */
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
