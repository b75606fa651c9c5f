/** The salts of recent days. They are random, kept for some days, and then permanently deleted. */
import type { Checkpoints } from './checkpoints.ts';

/** The log keeps records for three days, but records may wait longer in a journal. */
const keptDays = 14;
const cachedMax = 64;

export class VisitorSalts {
  readonly #checkpoints: Checkpoints;
  readonly #salts = new Map<number, string>();

  constructor(checkpoints: Checkpoints) {
    this.#checkpoints = checkpoints;
  }

  /** @throws PostgresUnavailable */
  async prepare(days: ReadonlySet<number>): Promise<void> {
    for (const day of days) {
      if (this.#salts.has(day)) continue;
      if (this.#salts.size >= cachedMax) this.#salts.clear();
      this.#salts.set(day, await this.#checkpoints.salt(day, keptDays));
    }
  }

  readonly has = (day: number): boolean => this.#salts.has(day);

  /** The salt of a prepared day. */
  readonly of = (day: number): string => {
    const salt = this.#salts.get(day);
    if (salt === undefined) throw new Error(`The salt of day ${day} was not prepared.`);
    return salt;
  };
}
