/**
 * Finds the rows of a batch that ClickHouse refuses. Rows are inserted into a table with the same columns and
 * constraints that stores nothing: first all rows, then halves of each refused range.
 */
import { type ClickHouse, ClickHouseFailure, identifier } from '#clickhouse/client.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import type { FormedPart } from './formed-batch.ts';

/**
 * Error codes about the data of an insert (ClickHouse, src/Common/ErrorCodes.cpp): values that cannot be parsed or
 * converted, are out of range, overflow, or violate a constraint. All others are about the server or the table, and
 * need an operator.
 */
const dataCodes = new Set([
  6, 26, 27, 33, 34, 38, 41, 53, 69, 70, 72, 117, 128, 131, 153, 190, 248, 321, 349, 395, 407, 432, 441, 467, 469, 653,
]);

export function isAboutData(code: number): boolean {
  return dataCodes.has(code);
}

/** Finds the rows of a batch that ClickHouse refuses. */
export interface RefusedRowsSearch {
  /**
   * The keys of refused rows. Empty if the refusal is not about single rows: all are accepted here, or none of several.
   * @param parts of a batch whose rows have places.
   * @throws ClickHouseFailure if the search can't be finished now.
   */
  find(batch: BatchName, parts: readonly FormedPart[]): Promise<ReadonlySet<string>>;
}

/** Maximum inserts per search. If more are needed, the refusal is probably not about single rows. */
const triesMax = 2_000;

export class RefusedRows implements RefusedRowsSearch {
  readonly #clickhouse: ClickHouse;

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse;
  }

  async find(batch: BatchName, parts: readonly FormedPart[]): Promise<Set<string>> {
    const refused = new Set<string>();
    for (const part of parts) {
      if (part.places.length === 0) continue;
      const found = await this.#searchIn(
        `probe_${part.table}_${part.partition}_${batch.partition}_${batch.batch_no}`,
        part,
      );
      const isSingle = found !== undefined && (found.length === 1 || found.length < part.places.length);
      if (isSingle) for (const key of found) refused.add(key);
    }
    return refused;
  }

  async #searchIn(table: string, part: FormedPart): Promise<string[] | undefined> {
    await this.#clickhouse.command(
      `CREATE TABLE IF NOT EXISTS ${identifier(table)} AS ${identifier(part.table)} ENGINE = Null`,
    );
    try {
      return await this.#search(part, table);
    } finally {
      await this.#clickhouse.command(`DROP TABLE IF EXISTS ${identifier(table)} SYNC`);
    }
  }

  /** Halves each refused range, down to single rows. `undefined` if there are too many. */
  async #search(part: FormedPart, table: string): Promise<string[] | undefined> {
    const { places, columns } = part;
    const found: string[] = [];
    const open: [from: number, to: number][] = [[0, places.length]];
    for (let tries = 0; ; tries++) {
      const range = open.pop();
      if (range === undefined) return found;
      if (tries >= triesMax) return undefined;
      const [from, to] = range;
      const bytes = part.body.subarray(places[from]?.start, places[to]?.start ?? part.body.length);
      const outcome = await this.#clickhouse.insert(table, bytes, { token: '', format: 'RowBinary', columns });
      if (outcome.kind === 'written') continue;
      if (outcome.kind === 'unavailable' || !isAboutData(outcome.code)) {
        throw new ClickHouseFailure('unavailable', outcome.code, outcome.message, undefined);
      }
      const middle = (from + to) >> 1;
      if (middle === from) found.push(places[from]?.key ?? '');
      else open.push([middle, to], [from, middle]);
    }
  }
}
