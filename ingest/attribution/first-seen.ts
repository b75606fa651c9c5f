/**
 * Decides which record of a partition is the first with its id, so that an event that a client sent twice, or an
 * install that was journalled twice, is counted once. A record is identified by its position in the log (partition,
 * producer, frame, index). For the same record the answer is always the same, whether its batch was withdrawn, formed
 * again, or is already in ClickHouse.
 *
 * Invariants:
 * - An id that was seen within a day is in the memory of recent ids, or in the filter and, once its batch is stored, in
 *   ClickHouse. Recent ids cover all batches that are formed and not yet stored, and are dropped only between two
 *   batches: an id that was recent when a batch began, and so was not looked up, stays recent until the batch is
 *   decided.
 * - The filter's "no" counts only if the filter holds every id received at any time at which the first may have
 *   arrived.
 * - A "maybe" of the filter is looked up before a record is dropped; no record is dropped because of a filter alone.
 * - Each partition has its own recent ids: while its batch waits, other partitions form many. Filters may be shared,
 *   since more ids only make "maybe" more frequent.
 * - An id that belongs to another partition under the current LOG_PARTITIONS (a stray) is looked up, and is decided
 *   only while this process owns all partitions: it cannot know what another process is storing with the same id.
 * - While another process owned the partition, it may have stored ids: `load` is called at each takeover, when no batch
 *   is in doubt.
 * - An id counts as used only if its record exists: at a takeover, ids of records that were not stored are dropped.
 */
import type { RowOrigin } from '#clickhouse/rows.ts';
import type { Clock } from '#common/clock.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { partitionOf } from '#common/log/partition.ts';
import { IdFilter } from './id-filter.ts';
import type { StoredRecord, StoredRecords } from './stored-records.ts';

/** How far back ids are loaded: a first may be a day older than its repeat, and a record may be late. */
const LOAD_BACK_MS = DAY_MS + 6 * HOUR_MS;
/** An app may date an event up to 90 days back, or an hour ahead. */
const EVENT_TIME_BACK_MS = 91 * DAY_MS;
/**
 * Minimum ids (over all partitions) and batches per generation; there are two generations. One batch is stored while
 * the next is formed, however many events they have: a batch is bounded in bytes and records, and a record may contain
 * a thousand small events.
 */
const RECENT_IDS = 100_000;
const RECENT_BATCHES = 3;
/** Maximum claims of one id in a generation; each is more than a day from the others. */
const CLAIMS_OF_ID_MAX = 8;
const LOOKUP_IDS_MAX = 5_000;
/**
 * With more ids, the filter would answer "maybe" to nearly everything, and loading it would only delay the partition.
 */
const LOADED_IDS_MAX = 20_000_000;

export interface IdUse {
  readonly kind: 'install' | 'event';
  readonly app_id: string;
  readonly id: string;
  /** Time of receipt, epoch milliseconds. */
  readonly received_at: number;
  readonly origin: RowOrigin;
}

/** The record that has already used an id. */
interface Holder {
  readonly received_at: number;
  /** Whether it is the record in question itself, not another record with its id. */
  readonly isItself: boolean;
}

export type IdFilters = Readonly<Record<IdUse['kind'], IdFilter>>;

export function newIdFilters(): IdFilters {
  return { event: new IdFilter(), install: new IdFilter() };
}

/** State that the partitions of a process share. */
export interface SeenTogether {
  readonly all: Iterable<FirstSeen>;
  readonly haveStraysCome: boolean;
  allowStrays(partition: number): Promise<void>;
  oneAfterTheOther<T>(work: () => Promise<T>): Promise<T>;
}

export interface FirstSeenOptions {
  readonly stored: StoredRecords;
  readonly clock: Clock;
  readonly partition: number;
  /** Total number of partitions. */
  readonly partitions: number;
  /** Shared by the partitions of a process, so that memory does not grow with their number. */
  readonly filters: IdFilters;
  /** Absent if there is only ever one partition. */
  readonly together?: SeenTogether;
  /** Maximum ids of a kind to load for this partition; if there are more, every id is looked up for a day. */
  readonly loadedIdsMax?: number;
}

export class FirstSeen {
  /** Since the start of the process. */
  readonly counters = { duplicates: 0, lookups: 0, looked_up_ids: 0, wrong_maybes: 0, loaded: 0, loads_skipped: 0 };
  readonly #options: FirstSeenOptions;
  /** The filter contains every id received since this time, epoch milliseconds. */
  readonly #loadedFromMs = { event: Number.POSITIVE_INFINITY, install: Number.POSITIVE_INFINITY };
  /** By id: one claim, or the most recent claims, which are more than a day apart. */
  #young = new Map<string, readonly IdUse[]>();
  #old = new Map<string, readonly IdUse[]>();
  /** How many batches added ids to the young generation. */
  #batches = 0;

  constructor(options: FirstSeenOptions) {
    this.#options = options;
  }

  /**
   * Loads the ids that other owners stored during the last day.
   * @param untilMs epoch milliseconds: except for late records, records from now on were received at this time or
   * later.
   * @throws ClickHouseFailure; every id is looked up then.
   */
  async load(untilMs: number): Promise<void> {
    // Stored records are in ClickHouse, and the rest is delivered again. If a journal and the log lost a record, its id
    // becomes free.
    this.#young = new Map();
    this.#old = new Map();
    this.#batches = 0;
    // In a partition beyond the configured number, every id belongs to another partition and is looked up.
    if (this.#options.partition >= this.#options.partitions) return;
    for (const kind of ['event', 'install'] as const) await this.#load(kind, untilMs - LOAD_BACK_MS);
  }

  async #load(kind: IdUse['kind'], fromMs: number): Promise<void> {
    const { stored, clock, partitions, filters, loadedIdsMax = LOADED_IDS_MAX } = this.#options;
    const range = { receivedFromMs: fromMs, timeFromMs: fromMs - EVENT_TIME_BACK_MS };
    this.#loadedFromMs[kind] = Number.POSITIVE_INFINITY;
    if ((await stored.count(kind, range)) / partitions > loadedIdsMax) {
      this.counters.loads_skipped++;
      // From now on, this process adds every id to the filter. The extra hour is for edges whose clock is ahead of
      // ours.
      this.#loadedFromMs[kind] = clock() + HOUR_MS;
      return;
    }
    for await (const lot of stored.ids(kind, range)) {
      for (const row of lot) if (this.#isOwn(row)) filters[kind].add(row.app_id, row.id, row.at);
      this.counters.loaded += lot.length;
    }
    this.#loadedFromMs[kind] = fromMs;
  }

  /**
   * For each claim of a batch, whether its record is the one that counts.
   * @throws ClickHouseFailure; the call may be repeated.
   */
  async settle(claims: readonly IdUse[]): Promise<boolean[]> {
    const { together, partition } = this.#options;
    if (together === undefined) return await this.#settle(claims);
    if (claims.some((claim) => !this.#isOwn(claim))) await together.allowStrays(partition);
    return await together.oneAfterTheOther(() => this.#settle(claims));
  }

  async #settle(claims: readonly IdUse[]): Promise<boolean[]> {
    const recent = claims.map((claim) => this.#recent(claim));
    const maybe = claims.filter((claim, at) => recent[at] === undefined && this.#isMaybe(claim));
    const stored = maybe.length === 0 ? new Map<string, StoredRecord[]>() : await this.#lookUp(maybe);
    this.#letGo();
    let kept = 0;
    const verdicts = claims.map((claim, at) => {
      const holder = this.#recent(claim) ?? recent[at] ?? this.#earliest(claim, stored.get(keyOf(claim)));
      const isFirst = holder === undefined || holder.isItself || isPast(holder, claim);
      if (isFirst) kept += this.#keep(claim);
      else this.counters.duplicates++;
      return isFirst;
    });
    if (kept > 0) this.#batches++;
    return verdicts;
  }

  #recent(claim: IdUse): Holder | undefined {
    const key = keyOf(claim);
    const own = this.#kept(key, claim, true);
    if (own !== undefined) return own;
    const { together } = this.#options;
    if (!together?.haveStraysCome) return undefined;
    for (const other of together.all) {
      const known = other.#kept(key, claim, false);
      if (known !== undefined) return known;
    }
    return undefined;
  }

  /** The claim's own row if it is stored, else the first row that makes it a duplicate. */
  #earliest(claim: IdUse, stored: readonly StoredRecord[] | undefined): Holder | undefined {
    if (!stored) return undefined;
    const { partition } = this.#options;
    const own = stored.find((row) => row.log_partition === partition && isSamePlace(row, claim.origin));
    if (own) return holderOf(own, true);
    const near = stored.find((row) => Math.abs(row.received_at - claim.received_at) <= DAY_MS) ?? stored[0];
    return near && holderOf(near, false);
  }

  /** The claim itself, or one that it repeats. A claim that is more than a day away does not count. */
  #kept(key: string, claim: IdUse, isOwn: boolean): Holder | undefined {
    return holderIn(this.#young.get(key), claim, isOwn) ?? holderIn(this.#old.get(key), claim, isOwn);
  }

  #isMaybe(claim: IdUse): boolean {
    const filter = this.#options.filters[claim.kind];
    // A repeated install record has the time of the first one; the first of an event may be a day older.
    const firstFromMs = claim.kind === 'install' ? claim.received_at : claim.received_at - DAY_MS;
    const isCovered = firstFromMs >= Math.max(this.#loadedFromMs[claim.kind], filter.keptFromMs);
    return !isCovered || !this.#isOwn(claim) || filter.mayHave(claim.app_id, claim.id);
  }

  /** @returns 0 for a known record: a batch that is formed again adds nothing new. */
  #keep(claim: IdUse): 0 | 1 {
    if (this.#recent(claim)?.isItself === true) return 0;
    const key = keyOf(claim);
    const others = this.#young.get(key);
    this.#young.set(key, others === undefined ? [claim] : [...others.slice(1 - CLAIMS_OF_ID_MAX), claim]);
    this.#options.filters[claim.kind].add(claim.app_id, claim.id, claim.received_at);
    return 1;
  }

  #isOwn({ app_id, id }: Pick<IdUse, 'app_id' | 'id'>): boolean {
    const { partition, partitions } = this.#options;
    return partitionOf(app_id, id, partitions) === partition;
  }

  #letGo(): void {
    if (this.#young.size < RECENT_IDS / this.#options.partitions || this.#batches < RECENT_BATCHES) return;
    this.#old = this.#young;
    this.#young = new Map();
    this.#batches = 0;
  }

  async #lookUp(claims: readonly IdUse[]): Promise<Map<string, StoredRecord[]>> {
    const found = new Map<string, StoredRecord[]>();
    for (const kind of ['event', 'install'] as const) {
      const ofKind = claims.filter((claim) => claim.kind === kind);
      for (let at = 0; at < ofKind.length; at += LOOKUP_IDS_MAX) {
        for (const row of await this.#rowsOf(kind, ofKind.slice(at, at + LOOKUP_IDS_MAX))) {
          const key = `${kind} ${row.app_id} ${row.id}`;
          const known = found.get(key);
          if (known) known.push(row);
          else found.set(key, [row]);
        }
      }
    }
    this.counters.wrong_maybes += claims.filter((claim) => !found.has(keyOf(claim))).length;
    return found;
  }

  async #rowsOf(kind: IdUse['kind'], claims: readonly IdUse[]): Promise<readonly StoredRecord[]> {
    this.counters.lookups++;
    this.counters.looked_up_ids += claims.length;
    const earliestMs = claims.reduce((least, claim) => Math.min(least, claim.received_at), Number.POSITIVE_INFINITY);
    const receivedFromMs = earliestMs - DAY_MS;
    const range = { receivedFromMs, timeFromMs: earliestMs - EVENT_TIME_BACK_MS };
    const apps = [...new Set(claims.map(({ app_id }) => app_id))];
    return await this.#options.stored.withIds(
      kind,
      apps,
      claims.map((claim) => claim.id),
      range,
    );
  }
}

function keyOf({ kind, app_id, id }: Pick<IdUse, 'kind' | 'app_id' | 'id'>): string {
  return `${kind} ${app_id} ${id}`;
}

function holderOf({ received_at }: Pick<IdUse, 'received_at'>, isItself: boolean): Holder {
  return { received_at, isItself };
}

/** @param isOwn whether the claims belong to the claim's partition. */
function holderIn(kept: readonly IdUse[] | undefined, claim: IdUse, isOwn: boolean): Holder | undefined {
  if (kept === undefined) return undefined;
  let near: IdUse | undefined;
  for (const known of kept) {
    if (isOwn && isSamePlace(known.origin, claim.origin)) return holderOf(known, true);
    if (near === undefined && !isPast(known, claim)) near = known;
  }
  return near && holderOf(near, false);
}

/** Both must be of the same partition, because each lane numbers its own frames. */
function isSamePlace(a: RowOrigin, b: RowOrigin): boolean {
  return a.producer_id === b.producer_id && Number(a.frame_no) === b.frame_no && a.idx === b.idx;
}

/** An event's id counts for a day. A repeated install record has the time of the first one, so it never expires. */
function isPast(holder: Pick<Holder, 'received_at'>, claim: IdUse): boolean {
  return claim.kind === 'event' && Math.abs(claim.received_at - holder.received_at) > DAY_MS;
}
