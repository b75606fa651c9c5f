/**
 * Attributes events that arrived before their install. The owner of a partition looks for installs that it has not
 * examined yet and finds the events of its own partition that wait for them; docs/adr/0033 says why each event is
 * attributed once.
 *
 *   1. find installs ──▶ cached absences are dropped
 *   2. wait until every batch that was being formed is stored
 *   3. find events ──▶ pairs of rows, again until no event is left
 *
 * Invariants:
 * - Only the owner of an event's partition writes its rows, between two of its batches, so it finds every existing row.
 * - The row that reverses an event and the row that replaces it are one insert. An event that has them is not found
 *   again.
 * - An event that is formed after installs were found finds them itself; one that was being formed at that time is
 *   stored before events are looked up. So each install is examined once, and no event is missed.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import type { EventRow } from '#clickhouse/rows-events.ts';
import { deviceKey, installKey } from '#common/attribution/recent-installs.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Time } from '#common/time.ts';
import type { Erasures } from '#ingest/erasures.ts';
import type { FormedPart } from '#ingest/formed-batch.ts';
import type { InstallLookup } from './install-lookup.ts';
import { type AppFacts, defaultFacts, type KnownApps } from './known-apps.ts';
import type { Cursor, LateCursors } from './late-cursors.ts';
import type { BatchOfInstalls, KnownInstall, LateStore } from './late-store.ts';
import { attributed, InstallsByKey, type LearnedEvent } from './learned-events.ts';
import { waitingKeys } from './waiting-keys.ts';

/** Maximum installs per look (unless a single batch has more), batches per listing, and installs per query. */
const installsMax = 2_000;
const batchesMax = 1_000;
const installsPerQuestion = 500;
/** Maximum events per batch, and maximum characters of their two rows. */
const eventsMax = 1_000;
const charsMax = 2 * 1_048_576;
/** Minimum interval between writes of the cursor: after a restart, installs of this period are examined again. */
const keepIntervalMs = 30_000;
/** Largest difference between the clocks that number the batches of different partitions. */
const numberMarginMs = DAY_MS;

export interface LateEventsParts {
  readonly store: LateStore;
  readonly cursors: LateCursors;
  readonly installs: Pick<InstallLookup, 'appeared' | 'forgetAbsent'>;
  readonly apps: Pick<KnownApps, 'of'>;
  readonly partsOf: (events: readonly LearnedEvent[], batch: BatchName) => FormedPart[];
  readonly erasures?: Erasures;
  readonly time: Time;
}

/** Installs that were not yet examined, and the cursor after them. */
export interface FoundInstalls {
  readonly installs: readonly KnownInstall[];
  readonly apps: ReadonlyMap<string, AppFacts>;
  readonly to: Cursor;
}

/** Events that waited for these installs. */
export interface Look {
  readonly events: readonly LearnedEvent[];
  /** Whether more events are left. */
  readonly isCut: boolean;
}

interface Progress {
  cursor: Cursor;
  keptMs: number;
}

export class LateEvents {
  /** Since the start of the process. */
  readonly counters = { looks: 0, installs: 0 };
  readonly #parts: LateEventsParts;
  readonly #progress = new Map<number, Progress>();

  constructor(parts: LateEventsParts) {
    this.#parts = parts;
  }

  /** Called when a partition is acquired. @throws ClickHouseFailure, PostgresUnavailable */
  async begin(partition: number): Promise<void> {
    const { cursors, store } = this.#parts;
    let cursor = await cursors.read(partition);
    if (cursor === null) {
      // A new partition, or a lost cursor: begin before the first event that waits, if any.
      const decided = await cursors.decided();
      const first = await store.firstWaiting(partition);
      const from = first === 0 ? Number.POSITIVE_INFINITY : Math.max(0, first - numberMarginMs);
      cursor = Object.fromEntries(Object.entries(decided).map(([of, no]) => [of, Math.min(no, from)]));
      await cursors.write(partition, cursor);
    }
    // Installs below the cursor are not examined again, but this process may have cached their absence for another
    // partition.
    this.#parts.installs.forgetAbsent();
    this.#progress.set(partition, { cursor, keptMs: this.#parts.time.elapsed() });
  }

  /** Null if there are no new installs. @throws ClickHouseFailure, PostgresUnavailable */
  async find(partition: number): Promise<FoundInstalls | null> {
    const { cursors, store } = this.#parts;
    const progress = this.#progress.get(partition);
    if (progress === undefined) return null;
    const { cursor } = progress;
    const decided = Object.entries(await cursors.decided()).map(([of, no]) => [Number(of), no] as const);
    const ahead = decided.filter(([of, no]) => no > (cursor[of] ?? 0));
    if (ahead.length === 0) return null;
    const upTo = Object.fromEntries(ahead);
    const all = await store.batchesWithInstalls(cursor, upTo, batchesMax);
    const some = cutAt(all, installsMax);
    const isCut = all.length === batchesMax || some.length < all.length;
    const to = raised(cursor, upTo, some, isCut);
    if (some.length === 0) {
      progress.cursor = to;
      await this.#keep(partition, progress);
      return null;
    }
    const installs = await store.installsOf(some);
    // An event that is attributed to an install is never taken back, so the install's window must be right.
    const apps = await this.#parts.apps.of(new Set(installs.map(({ app_id }) => app_id)));
    this.#parts.installs.appeared(
      installs.flatMap(({ app_id, install_id, device_id }) => [
        installKey(app_id, install_id),
        deviceKey(app_id, device_id),
      ]),
    );
    this.counters.installs += installs.length;
    return { installs, apps, to };
  }

  /**
   * Call only after every batch that was being formed when the installs were found is stored.
   * @throws ClickHouseFailure
   */
  async look(partition: number, { installs, apps }: FoundInstalls): Promise<Look> {
    this.counters.looks++;
    const { erasures } = this.#parts;
    const windowMs = (appId: string) => (apps.get(appId) ?? defaultFacts).attribution_window_hours * HOUR_MS;
    const byKey = new InstallsByKey(installs, windowMs);
    const found = new Map<string, LearnedEvent>();
    let chars = 0;
    for (let at = 0; at < installs.length; at += installsPerQuestion) {
      const some = installs.slice(at, at + installsPerQuestion);
      for await (const row of this.#waiting(partition, some, windowMs)) {
        const install = byKey.installOf(row);
        // Skip events that were erased in the meantime: they no longer wait.
        const before = erasures?.event(row) ?? row;
        const place = `${row.producer_id} ${row.frame_no} ${row.idx}`;
        if (install === null || before !== row || found.has(place)) continue;
        chars += charsOf(row);
        if (found.size >= eventsMax || (chars > charsMax && found.size > 0)) {
          return { events: [...found.values()], isCut: true };
        }
        const after = attributed(row, install);
        found.set(place, { before: { ...row, properties: '' }, after: erasures?.event(after) ?? after });
      }
    }
    return { events: [...found.values()], isCut: false };
  }

  /** The rows of a look. */
  partsOf({ events }: Look, batch: BatchName): FormedPart[] {
    return this.#parts.partsOf(events, batch);
  }

  /** Call when all events that waited for these installs are stored. @throws PostgresUnavailable */
  async passed(partition: number, { to }: FoundInstalls): Promise<void> {
    const progress = this.#progress.get(partition);
    if (progress === undefined) return;
    progress.cursor = to;
    await this.#keep(partition, progress);
  }

  /**
   * Call when the log is replayed from about this batch: later events may lack their late attribution.
   * @throws PostgresUnavailable
   */
  async rewind(partition: number, batchNo: number): Promise<void> {
    const { cursors } = this.#parts;
    const kept = (await cursors.read(partition)) ?? {};
    const back = Object.entries(kept).map(([of, no]) => [of, Math.min(no, batchNo)]);
    await cursors.write(partition, Object.fromEntries(back));
  }

  async #keep(partition: number, progress: Progress): Promise<void> {
    const now = this.#parts.time.elapsed();
    if (now - progress.keptMs < keepIntervalMs) return;
    await this.#parts.cursors.write(partition, progress.cursor);
    progress.keptMs = now;
  }

  async *#waiting(
    partition: number,
    installs: readonly KnownInstall[],
    windowMs: (appId: string) => number,
  ): AsyncGenerator<EventRow> {
    const distinct = (of: (install: KnownInstall) => string[]) => [...new Set(installs.flatMap(of))];
    const wanted = {
      partition,
      organizations: distinct((one) => [one.organization_id]),
      apps: distinct((one) => [one.app_id]),
      keys: distinct(waitingKeys),
      sinceMs: Math.max(0, Math.min(...installs.map((one) => one.time_ms - windowMs(one.app_id)))),
      eventsMax,
    };
    if (wanted.keys.length === 0) return;
    let after: EventRow | null = null;
    do {
      const rows: readonly EventRow[] = await this.#parts.store.waiting({ ...wanted, after });
      yield* rows;
      after = rows.length < eventsMax ? null : (rows.at(-1) ?? null);
    } while (after !== null);
  }
}

/** The first batches that together have enough installs. */
function cutAt(batches: readonly BatchOfInstalls[], max: number): readonly BatchOfInstalls[] {
  let installs = 0;
  const end = batches.findIndex(({ n }, at) => {
    installs += n;
    return at > 0 && installs > max;
  });
  return end === -1 ? batches : batches.slice(0, end);
}

/**
 * Advances the cursor past these batches and past all batches without installs.
 * @param isCut whether more batches have installs.
 */
function raised(cursor: Cursor, upTo: Cursor, batches: readonly BatchOfInstalls[], isCut: boolean): Cursor {
  const next: Record<number, number> = { ...cursor };
  const reach = (of: number, no: number) => {
    next[of] = Math.max(next[of] ?? 0, no);
  };
  // The batches are ordered by number.
  const last = isCut ? (batches.at(-1)?.batch_no ?? 0) - 1 : Number.POSITIVE_INFINITY;
  for (const [of, no] of Object.entries(upTo)) reach(Number(of), Math.min(no, last));
  for (const { log_partition, batch_no } of batches) reach(log_partition, batch_no);
  return next;
}

function charsOf(row: EventRow): number {
  let chars = row.properties.length;
  for (const value of Object.values(row)) if (typeof value === 'string') chars += 2 * value.length;
  for (const key of row.waiting_keys) chars += key.length;
  return chars;
}
