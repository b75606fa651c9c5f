/**
 * Keeps the table `active_installs` equal to the records: finds the days whose records changed since their cells were made, and corrects
 * these. Replays, repairs and late attributions need nothing else: they have batches of their own. An erasure changes rows without one,
 * so it notes the days in Postgres, and marks them when it ends.
 */
import { type Correction, correction, countsByDay, type DayCounts } from '#clickhouse/active-installs.ts';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { type Postgres, PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import { systemTime, type Time, type Timer } from '#common/time.ts';
import { type ChangedDays, changedDays, rangesOf } from './changed-days.ts';

export interface ActiveInstallsOptions {
  /** Its own, with a request timeout for long statements. */
  readonly clickhouse: ClickHouse;
  /** The instant (epoch ms) before which all records are stored; 0 if unknown. */
  readonly asOf: () => Promise<number>;
  readonly unfinished: () => Promise<UnfinishedErasure[]>;
  /** Whether this process is the one that compares. */
  readonly isFirst: () => boolean;
  /** Organizations with fewer events have no cells: their records are read. */
  readonly eventsMin?: number;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

const eventsMinDefault = 200_000;
const restMs = 15 * MINUTE_MS;
/** Comparing takes at most a tenth of the time. */
const restsPerRun = 9;
/** Of one statement: its events are kept in memory, each counted for three days. */
const recordsMax = 6_000_000;

/** Each is a command of an operator. */
const erasuresMax = 1_000;
/** An erasure that began before is not likely to run any more. */
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
  /** Since 1970. */
  readonly days: readonly number[];
  /** Epoch ms. */
  readonly begun_ms: number;
}

/** Erasures that run, or were interrupted. Those whose ids were forgotten have ended for the cells. */
export function unfinishedErasures(db: Queries): Promise<UnfinishedErasure[]> {
  return db.query<UnfinishedErasure>(
    `SELECT organization_id, days, (extract(epoch FROM begun_at) * 1000)::bigint AS begun_ms
       FROM ingest.unfinished_erasure WHERE NOT is_erased AND begun_at > now() - interval '30 days' ORDER BY id LIMIT $1`,
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

  /** A statement that is running ends with its client. */
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
    // First: an erasure that ends after this marks its days, which the counts or the next comparison show.
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

  /** By organization. Tells the operator about erasures that were interrupted: some of a person's data is still there. */
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
   * The cells of new installs come last: until they are stored, the next comparison counts the later days again. @returns false if
   * another process compares now.
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
