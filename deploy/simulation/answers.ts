/**
 * What the clients of a simulation know of the records that they sent: the ledger against which the stores are judged.
 * A record without an answer, or with a refusal, may be stored once or not at all; one that was promised is stored exactly once.
 */

type Answer = 'open' | 'kept' | 'refused' | 'forgiven';

interface SentRecord {
  readonly slot: string;
  readonly sentAt: number;
  answer: Answer;
  answeredAt: number;
}

export interface Judgement {
  readonly lost: readonly number[];
  readonly duplicated: readonly number[];
  readonly phantom: readonly number[];
}

export class Answers {
  readonly #records: SentRecord[] = [];

  /** @returns the number of a record that is about to be sent. */
  open(slot: string, now: number): number {
    return this.#records.push({ slot, sentAt: now, answer: 'open', answeredAt: 0 }) - 1;
  }

  settle(number: number, answer: 'kept' | 'refused', now: number): void {
    const record = this.#records[number];
    if (record === undefined || record.answer !== 'open') throw new Error(`record ${number} was answered before`);
    record.answer = answer;
    record.answeredAt = now;
  }

  /** The power was lost: what was answered since that time may be lost, as the setting allows. */
  forgive(slot: string, since: number): void {
    for (const record of this.#records) {
      if (record.slot === slot && record.answer === 'kept' && record.answeredAt >= since) record.answer = 'forgiven';
    }
  }

  count(answer: Answer): number {
    return this.#records.reduce((count, record) => count + (record.answer === answer ? 1 : 0), 0);
  }

  get sent(): number {
    return this.#records.length;
  }

  /** When a record was sent and answered, for whoever looks for it. */
  describe(number: number): string {
    const record = this.#records[number];
    return record === undefined
      ? `record ${number} was never sent`
      : `record ${number} of ${record.slot}, sent ${(record.sentAt / 1000).toFixed(4)}, ${record.answer} ${(record.answeredAt / 1000).toFixed(4)}`;
  }

  /** @param stored how often each record is stored. */
  judge(stored: ReadonlyMap<number, number>): Judgement {
    const [lost, duplicated, phantom]: number[][] = [[], [], []];
    for (const [number, record] of this.#records.entries()) {
      if (record.answer === 'kept' && !stored.has(number)) lost?.push(number);
    }
    for (const [number, times] of stored) {
      if (times > 1) duplicated?.push(number);
      if (this.#records[number] === undefined) phantom?.push(number);
    }
    return { lost: lost ?? [], duplicated: duplicated ?? [], phantom: phantom ?? [] };
  }
}
