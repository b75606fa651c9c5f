/**
 * The ledger of a load generator: the answer to each record that it sent. An entry is written before the request is
 * sent, so every stored record has one.
 *
 *   unsent → unknown → kept      the answer accepted it
 *                    → refused   the answer rejected it
 *
 * A record without an answer stays unknown: it may be stored once or not at all.
 */
const states = { unsent: 0, unknown: 1, kept: 2, refused: 3 } as const;
type State = keyof typeof states;

const numbersMax = 8_000_000;

export interface LedgerCounts {
  readonly sent: number;
  readonly kept: number;
  readonly unknown: number;
  readonly refused: number;
}

export interface Verdict {
  /** Accepted, but not stored. */
  readonly lost: number;
  /** Stored more often than once. */
  readonly duplicated: number;
  /** Stored, but never sent, or sent and refused. */
  readonly phantom: number;
  /** The first few, to look for in the logs. */
  readonly examples: readonly string[];
}

const examplesMax = 12;

export class Ledger {
  #states = new Uint8Array(65_536);
  #next = 1;

  /** Opens an entry. @returns the number of the record that is about to be sent. */
  open(): number {
    const number = this.#next++;
    if (number > numbersMax) throw new Error('the ledger is full');
    if (number >= this.#states.length) {
      const grown = new Uint8Array(this.#states.length * 2);
      grown.set(this.#states);
      this.#states = grown;
    }
    this.#states[number] = states.unknown;
    return number;
  }

  /** A copy of the ledger as it is now. */
  copy(): Ledger {
    const copied = new Ledger();
    copied.#states = this.#states.slice();
    copied.#next = this.#next;
    return copied;
  }

  settle(number: number, as: 'kept' | 'refused'): void {
    this.#states[number] = states[as];
  }

  is(number: number, state: State): boolean {
    return (this.#states[number] ?? states.unsent) === states[state];
  }

  get counts(): LedgerCounts {
    const counts = { sent: this.#next - 1, kept: 0, unknown: 0, refused: 0 };
    for (let number = 1; number < this.#next; number++) {
      if (this.is(number, 'kept')) counts.kept++;
      else if (this.is(number, 'refused')) counts.refused++;
      else counts.unknown++;
    }
    return counts;
  }

  /** Compares the ledger with how often each number is stored. */
  judge(stored: ReadonlyMap<number, number>): Verdict {
    const examples: string[] = [];
    const note = (what: string, number: number) => {
      if (examples.length < examplesMax) examples.push(`${what} ${number}`);
    };
    let lost = 0;
    let duplicated = 0;
    let phantom = 0;
    for (let number = 1; number < this.#next; number++) {
      if (!this.is(number, 'kept') || stored.has(number)) continue;
      lost++;
      note('lost', number);
    }
    for (const [number, times] of stored) {
      if (times > 1) {
        duplicated += times - 1;
        note('duplicated', number);
      }
      if (this.is(number, 'unsent') || this.is(number, 'refused')) {
        phantom++;
        note('phantom', number);
      }
    }
    return { lost, duplicated, phantom, examples };
  }
}
