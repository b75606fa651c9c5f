/**
 * When ClickHouse drops rows. It is read from ClickHouse: the setting may have changed since, and the clock of this
 * process may be wrong.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import { type Expiry, readExpiry } from '#clickhouse/queries/expiry.ts';
import { tableOf } from '#clickhouse/rollups.ts';
import { HOUR_MS } from '#common/durations.ts';
import { recordKinds } from '#common/log/record.ts';
import type { Time } from '#common/time.ts';
import type { StoreTimes } from './frame-clock.ts';

/** Rows are stored this long before they would be dropped, or not at all. */
const marginMs = HOUR_MS;

export class Retention implements StoreTimes {
  readonly #clickhouse: Pick<ClickHouse, 'query'>;
  readonly #time: Pick<Time, 'elapsed'>;
  #expiry: Expiry | undefined;
  #readAt = 0;
  /** By kind of record. */
  #ageMaxOf: ReadonlyMap<string, number> = new Map();

  constructor(clickhouse: Pick<ClickHouse, 'query'>, time: Pick<Time, 'elapsed'>) {
    this.#clickhouse = clickhouse;
    this.#time = time;
  }

  /** @throws ClickHouseFailure; what was read before stays in force. */
  async refresh(): Promise<Expiry> {
    const expiry = await readExpiry(this.#clickhouse);
    this.#readAt = this.#time.elapsed();
    this.#expiry = expiry;
    const ages = recordKinds.map(
      (kind) => [kind, expiry.ageMaxOf.get(tableOf(kind)) ?? Number.POSITIVE_INFINITY] as const,
    );
    this.#ageMaxOf = new Map(ages);
    return expiry;
  }

  get now(): number | undefined {
    return this.#expiry && this.#expiry.now + this.#time.elapsed() - this.#readAt;
  }

  oldestOf(kind: string): number {
    const { now } = this;
    return now === undefined ? 0 : now - (this.#ageMaxOf.get(kind) ?? Number.POSITIVE_INFINITY) + marginMs;
  }
}
