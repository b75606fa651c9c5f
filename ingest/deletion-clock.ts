/**
 * Moves the time by which all processes delete old rows (pg-migrations/0963_deletion_clock.sql) towards Postgres' clock,
 * `paceMax` times as fast as this process measures time to pass. Any number of processes may do so: each adds what it
 * measured to what it read when it began to measure, so together they are no faster.
 *
 * Two times are certainly wrong, and are left at once: one before this release, and, unless now() is such a time too, one
 * that is ahead of now(), at which nothing would limit deletion if the clock jumped ahead again.
 */
import { DAY_MS } from '#common/durations.ts';
import { releasedMs } from '#common/process/release.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Time } from '#common/time.ts';

const paceMax = 2;
/** Beyond this, Postgres' clock has jumped, or no ingest ran for that long. */
const behindMsMax = DAY_MS;
/** Beyond this, it was reached by a clock that was ahead. */
const aheadMsMax = DAY_MS;

export interface DeletionClockOptions {
  readonly postgres: Queries;
  readonly time: Pick<Time, 'elapsed'>;
  readonly log: (fields: object, line: string) => void;
  /** Replaced in tests. */
  readonly releasedMs?: number;
}

export class DeletionClock {
  behindMs = 0;
  readonly #options: DeletionClockOptions;
  #measured: { readonly from: string; readonly at: number } | undefined;

  constructor(options: DeletionClockOptions) {
    this.#options = options;
  }

  /** The first call only begins to measure. @throws PostgresUnavailable */
  async advance(): Promise<void> {
    const { postgres, time, log } = this.#options;
    const at = time.elapsed();
    const { from, at: since } = this.#measured ?? { from: '-infinity', at };
    const [row] = await postgres.query<{ reached: string; behind_ms: number }>(
      `UPDATE ingest.deletion_clock
          SET reached = CASE WHEN reached > now() + interval '${aheadMsMax} milliseconds' AND now() >= released.at THEN now()
                        ELSE greatest(released.at, reached, least(now(), least($1::timestamptz, reached) + $2 * interval '1 millisecond')) END
         FROM to_timestamp($3 / 1000.0) AS released (at)
       RETURNING reached::text, greatest(0, extract(epoch FROM now() - reached) * 1000)::float8 AS behind_ms`,
      [from, paceMax * (at - since), this.#options.releasedMs ?? releasedMs()],
      'advance_deletion_clock',
    );
    if (row === undefined) return;
    this.#measured = { from: row.reached, at };
    const wasBehind = this.behindMs > behindMsMax;
    this.behindMs = row.behind_ms;
    const isBehind = this.behindMs > behindMsMax;
    if (isBehind === wasBehind) return;
    const days = Math.round(this.behindMs / DAY_MS);
    if (isBehind)
      log(
        { days, reached: row.reached },
        'the clock of Postgres is far ahead of the time by which old rows are deleted: check it; until then, two days of rows are deleted per day',
      );
    else log({}, 'old rows are deleted by the clock of Postgres again');
  }
}
