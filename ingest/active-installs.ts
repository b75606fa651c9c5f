/**
 * Keeps the table `active_installs` consistent with the records: finds the days whose records changed after their cells
 * were computed, and recomputes those cells. Replays, repairs and late attributions are detected by their batches. An
 * erasure changes rows without a batch, so it lists the affected days in Postgres and marks them when it ends.
 */
import { type Correction, correction, countsByDay, type DayCounts } from '#clickhouse/active-installs.ts';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { type Postgres, PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import { systemTime, type Time, type Timer } from '#common/time.ts';
import { type ChangedDays, changedDays, rangesOf } from './changed-days.ts';

export interface ActiveInstallsOptions {
  /** A separate client, with a request timeout for long statements. */
  readonly clickhouse: ClickHouse;
  /** The instant (epoch ms) before which all records are stored; 0 if unknown. */
  readonly asOf: () => Promise<number>;
  readonly unfinished: () => Promise<UnfinishedErasure[]>;
  /** Whether this process is the one that runs the comparison. */
  readonly isFirst: () => boolean;
  /** Organizations with fewer events have no cells; queries read their records instead. */
  readonly eventsMin?: number;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

const eventsMinDefault = 200_000;
const restMs = 15 * MINUTE_MS;
/** Comparing takes at most a tenth of the time: the pause is at least nine times as long as the run. */
const restsPerRun = 9;
/** Maximum records per statement: its events are kept in memory, each counted for three days. */
const recordsMax = 6_000_000;

/** Maximum unfinished erasures to read; each is an operator's command. */
const erasuresMax = 1_000;
/** An erasure that began earlier than this is probably no longer running. */
const erasureMs = HOUR_MS;
const statementTimeoutMs = 10 * MINUTE_MS;

export function activeInstallsOf(
  clickhouseUrl: string,
  postgres: Postgres,
  isFirst: () => boolean,
  log: ActiveInstallsOptions['log'],
): ActiveInstalls {
  return new ActiveInstalls({
    clickhouse: new ClickHouse({ url: clickhouseUrl, requestTimeoutMs: statementTimeoutMs }),
    asOf: async () => {
      const [row] = await postgres.query<{ as_of: number | null }>(
        'SELECT min(committed_to) AS as_of FROM ingest.progress',
      );
      return row?.as_of ?? 0;
    },
    unfinished: () => unfinishedErasures(postgres),
    isFirst,
    time: systemTime,
    log,
  });
}

export interface UnfinishedErasure {
  readonly organization_id: string;
  /** Days since 1970. */
  readonly days: readonly number[];
  /** Epoch ms. */
  readonly begun_ms: number;
}

/**
 * Erasures that are running or were interrupted. Excludes those that have erased their rows, because they no longer
 * change cells.
 */
export function unfinishedErasures(db: Queries): Promise<UnfinishedErasure[]> {
  return db.query<UnfinishedErasure>(
    `SELECT organization_id, days, (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms
       FROM ingest.unfinished_erasure WHERE NOT is_erased AND begun_at > signpost_deletion_time() - interval '30 days' ORDER BY id LIMIT $1`,
    [erasuresMax],
  );
}

export class ActiveInstalls {
  readonly #options: ActiveInstallsOptions;
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;
  #runs = 0;

  constructor(options: ActiveInstallsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#compareAfter(MINUTE_MS);
  }

  /** Closing the client ends a running statement. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#options.time.clear(this.#timer);
    await this.#options.clickhouse.close();
    await this.#running;
  }

  #compareAfter(ms: number): void {
    if (this.#isStopped) return;
    const { time } = this.#options;
    this.#timer = time.after(ms, () => {
      const begun = time.elapsed();
      this.#running = this.#compareIfFirst().then(() =>
        this.#compareAfter(Math.max(restMs, restsPerRun * (time.elapsed() - begun))),
      );
    });
  }

  async #compareIfFirst(): Promise<void> {
    const { isFirst, log } = this.#options;
    try {
      if (isFirst()) await this.compare();
    } catch (error) {
      if (!(error instanceof ClickHouseFailure) && !(error instanceof PostgresUnavailable)) throw error;
      log({ reason: error.message }, 'active installs could not be compared with their records');
    }
  }

  /** @throws ClickHouseFailure, PostgresUnavailable */
  async compare(): Promise<void> {
    const { clickhouse, asOf, eventsMin = eventsMinDefault } = this.#options;
    const asOfMs = await asOf();
    // Read before the counts: an erasure that ends after this marks its days, so the counts or the next comparison show
    // them.
    const unsettled = await this.#unsettledDays();
    const counts = await clickhouse.query<DayCounts>(countsByDay, { events_min: eventsMin });
    const byOrganization = new Map<string, DayCounts[]>();
    for (const row of counts) {
      const rows = byOrganization.get(row.organization_id);
      if (rows) rows.push(row);
      else byOrganization.set(row.organization_id, [row]);
    }
    this.#runs++;
    for (const [organization_id, rows] of byOrganization) {
      if (!(await this.#correct(organization_id, changedDays(rows, this.#runs, unsettled.get(organization_id)))))
        return;
      await clickhouse.command(
        `INSERT INTO active_installs_compared (organization_id, as_of, revenue_as_of)
         SELECT {organization_id:String}, fromUnixTimestamp64Milli({as_of:Int64}) AS instant, instant`,
        { organization_id, as_of: asOfMs },
        { async_insert: 0 },
      );
    }
  }

  /** By organization. Warns the operator about interrupted erasures, which leave some of a person's data behind. */
  async #unsettledDays(): Promise<Map<string, Set<number>>> {
    const { unfinished, time, log } = this.#options;
    const unsettled = new Map<string, Set<number>>();
    for (const { organization_id, days, begun_ms } of await unfinished()) {
      const known = unsettled.get(organization_id) ?? new Set();
      unsettled.set(organization_id, known);
      for (const day of days) known.add(day);
      if (begun_ms < time.now() - erasureMs)
        log(
          { organization_id, began: new Date(begun_ms).toISOString() },
          'an erasure is not finished: complete it with npm run admin -- erase --unfinished',
        );
    }
    return unsettled;
  }

  /**
   * The cells of new installs are written last: until they are stored, the next comparison recounts the later days.
   * @returns false if stopped, or if another process is now responsible.
   */
  async #correct(organization_id: string, changed: ChangedDays): Promise<boolean> {
    const corrections = (['activity', 'revenue', 'installs'] as const).flatMap((what) =>
      rangesOf(changed[what], recordsMax).map((range): Correction => ({ what, organization_id, ...range })),
    );
    for (const one of corrections) {
      if (this.#isStopped || !this.#options.isFirst()) return false;
      const { sql, params, settings } = correction(one);
      await this.#options.clickhouse.command(sql, params, settings);
    }
    return true;
  }
}
