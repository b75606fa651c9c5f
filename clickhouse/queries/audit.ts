/**
 * Checks the figures against the records: every rollup must equal the sum of its raw rows, no raw row may exist twice,
 * no click may be missing between others, and no row that ingest stored may be gone. Days are checked one by one, so
 * that memory does not grow with the range.
 */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';
import { type Kind, type RawKind, type Rollup, rawKinds, rollups } from '#clickhouse/rollups.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { type LostFrames, missingClicks } from './audit-frames.ts';
import { type LedgerRow, type MissingRows, missingRows } from './missing-rows.ts';

export interface AuditRange {
  /** Epoch milliseconds; rounded out to whole UTC days, the size of the largest bucket. */
  readonly from_ms: number;
  readonly to_ms: number;
}

/** Figures of one app and bucket that are wrong. */
export interface AuditFault {
  readonly fault: 'rollup_differs' | 'record_stands_twice' | 'clicks_missing' | 'frames_lost' | 'rows_missing';
  readonly table: string;
  /** For missing clicks and lost frames: the producer, and the first of the frames. */
  readonly producer_id?: string;
  readonly frame_no?: number;
  readonly organization_id: string;
  readonly app_id: string;
  /** Beginning of the hour (or of the day, for figures by day), ISO 8601; for missing rows, the day they were stored. */
  readonly bucket: string;
  /**
   * Rows in the rollup beyond those of the raw table (negative: missing), surplus copies, or missing clicks, at least.
   */
  readonly rows: number;
  /** Cells of the rollup that differ in any figure; 0 for copies. */
  readonly cells: number;
}

export interface AuditReport {
  readonly from: string;
  readonly to: string;
  readonly days: number;
  /** Raw rows that were checked. */
  readonly records: number;
  /** Records of lost frames and missing clicks, at least (see audit-frames.ts), and all missing rows of the ledger. */
  readonly lost: number;
  readonly duplicated: number;
  /** Cells of rollups that differ. */
  readonly rollup_difference: number;
  /** Since when rows are in the ledger, ISO 8601; null if it is empty. Whether earlier rows are missing is unknown. */
  readonly ledger_from: string | null;
  /** Rows of the ledger that retention has removed. */
  readonly expired: number;
  /** The first faults. */
  readonly faults: readonly AuditFault[];
}

const faultsMax = 100;
const settings: Settings = { max_execution_time: 600, max_memory_usage: 3_000_000_000, max_rows_to_read: 0 };

const time = 'time >= fromUnixTimestamp64Milli({from:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})';
const bucket = 'bucket >= fromUnixTimestamp64Milli({from:Int64}) AND bucket < fromUnixTimestamp64Milli({to:Int64})';

/** The part of a rollup to check; all of it without a pick. */
interface Slice {
  readonly pick: string;
  readonly from: number;
  readonly to: number;
  readonly lost: readonly LostFrames[];
}

/** The column by which cells are grouped, besides their place and time. */
const keysOf: Record<Kind, string> = { clicks: 'is_bot', installs: 'attributed', events: 'revenue_currency' };
const sumsOf: Record<Kind, readonly string[]> = {
  clicks: ['rows'],
  installs: ['rows', 'reinstalls', 'opens', 'reengagements'],
  events: ['rows', 'conversions', 'revenue'],
};

/** What Postgres knows about records. */
interface KnownRecords {
  /** Frames that journals have lost since a day before the range. */
  readonly lost?: readonly LostFrames[];
  /** Checked whole, whatever the range. */
  readonly ledger?: readonly LedgerRow[];
}

/**
 * @param onDay called after each day, to show progress. @throws ClickHouseFailure
 */
export async function audit(
  client: Pick<ClickHouse, 'query'>,
  range: AuditRange,
  onDay: (day: string) => void = () => undefined,
  { lost = [], ledger = [] }: KnownRecords = {},
): Promise<AuditReport> {
  const from = Math.floor(range.from_ms / DAY_MS) * DAY_MS;
  const to = Math.ceil(range.to_ms / DAY_MS) * DAY_MS;
  const faults: AuditFault[] = [];
  const sums = { records: 0, lost: 0, duplicated: 0, rollup_difference: 0, days: 0 };
  let gaps = 0;
  for (let day = from; day < to; day += DAY_MS) {
    for (const kind of rawKinds) sums.records += await recordsOf(client, kind, day);
    const found = await faultsWithin(client, { pick: '', from: day, to: day + DAY_MS, lost });
    addFaults(sums, found);
    gaps += gapsIn(found);
    faults.push(...found);
    faults.splice(faultsMax);
    sums.days++;
    onDay(iso(day).slice(0, 10));
  }
  const { missing, expired } = await missingRows(client, ledger);
  sums.lost += lostBesides(gaps, missing);
  faults.push(...missing.map(rowsMissing));
  const since = ledger.reduce((first, { batch_from }) => Math.min(first, batch_from), Number.POSITIVE_INFINITY);
  const ledger_from = Number.isFinite(since) ? iso(since) : null;
  return { from: iso(from), to: iso(to), ...sums, ledger_from, expired, faults };
}

/** How many records are lost besides those of gaps: missing click rows leave gaps as well, which are counted once. */
function lostBesides(gaps: number, missing: readonly MissingRows[]): number {
  const sum = (isClick: boolean) =>
    missing.reduce((total, { table, rows }) => total + ((table === 'clicks') === isClick ? rows : 0), 0);
  return sum(false) + Math.max(0, sum(true) - gaps);
}

/** Clicks that are missing between others, at least. */
function gapsIn(faults: readonly AuditFault[]): number {
  return faults.reduce((sum, { fault, rows }) => (fault === 'clicks_missing' ? sum + rows : sum), 0);
}

function rowsMissing({ table, day_ms, rows }: MissingRows): AuditFault {
  return { fault: 'rows_missing', table, organization_id: '', app_id: '', bucket: iso(day_ms), rows, cells: 0 };
}

/** The result of one check, in numbers. */
export type AuditFigures = Pick<AuditReport, 'lost' | 'duplicated' | 'rollup_difference'>;

/** A fault of one app in an hour. Which organization lost clicks is not known: their records are missing. */
export interface AuditFailure {
  readonly fault: keyof AuditFigures;
  readonly organization_id: string | null;
  readonly app_id: string | null;
  /** Null for lost clicks, which are not those of one organization. */
  readonly count: number | null;
}

export interface HourReport {
  readonly figures: AuditFigures;
  /** The first failures. */
  readonly failures: readonly AuditFailure[];
}

const failuresMax = 1_000;

/**
 * Checks one hour at a cost that does not grow with the older data: records against their places in the log, and the
 * quarters of an hour of each app against their raw rows. Figures by day can only be checked against a whole day.
 * @param hour_ms its beginning, epoch ms; an hour to which nothing is added any more.
 * @param known of its ledger, the lines to check in this hour. @throws ClickHouseFailure
 */
export async function auditHour(
  client: Pick<ClickHouse, 'query'>,
  hour_ms: number,
  { lost = [], ledger = [] }: KnownRecords = {},
): Promise<HourReport> {
  const figures = { lost: 0, duplicated: 0, rollup_difference: 0 };
  const slice = { pick: "dimension = 'quarter'", from: hour_ms, to: hour_ms + HOUR_MS, lost };
  const faults = await faultsWithin(client, slice);
  addFaults(figures, faults);
  const { missing } = await missingRows(client, ledger);
  figures.lost += lostBesides(gapsIn(faults), missing);
  return { figures, failures: failuresOf([...faults, ...missing.map(rowsMissing)]) };
}

function failuresOf(faults: readonly AuditFault[]): AuditFailure[] {
  const failures = new Map<string, AuditFailure>();
  for (const fault of faults) {
    const { organization_id, app_id } = fault;
    const name = figureOf[fault.fault];
    const key = `${name} ${organization_id} ${app_id}`;
    const count = (failures.get(key)?.count ?? 0) + countOf(fault);
    failures.set(
      key,
      name === 'lost'
        ? { fault: name, organization_id: null, app_id: null, count: null }
        : { fault: name, organization_id, app_id, count },
    );
  }
  return [...failures.values()].slice(0, failuresMax);
}

const figureOf = {
  clicks_missing: 'lost',
  frames_lost: 'lost',
  rows_missing: 'lost',
  record_stands_twice: 'duplicated',
  rollup_differs: 'rollup_difference',
} as const satisfies Record<AuditFault['fault'], keyof AuditFigures>;

function addFaults(
  sums: { lost: number; duplicated: number; rollup_difference: number },
  faults: readonly AuditFault[],
): void {
  for (const fault of faults) sums[figureOf[fault.fault]] += countOf(fault);
}

function countOf({ fault, rows, cells }: AuditFault): number {
  return fault === 'rollup_differs' ? cells : rows;
}

async function faultsWithin(client: Pick<ClickHouse, 'query'>, slice: Slice): Promise<AuditFault[]> {
  const faults = lostWithin(slice);
  faults.push(...(await confirmed(() => gapsWithin(client, slice))));
  for (const kind of rawKinds) faults.push(...(await confirmed(() => copiesOf(client, kind, slice))));
  for (const rollup of rollups) {
    if (slice.pick !== '' && rollup.table.endsWith('_by_link')) continue;
    faults.push(...(await confirmed(() => differencesOf(client, rollup, slice))));
  }
  return faults;
}

/** A lost frame belongs to the time at which it was noted: when its records were written, went with them. */
function lostWithin({ from, to, lost }: Slice): AuditFault[] {
  return lost
    .filter(({ noted_at }) => noted_at >= from && noted_at < to)
    .map(({ kind, producer_id, frame_from, records, noted_at }) => {
      const bucket = iso(Math.floor(noted_at / HOUR_MS) * HOUR_MS);
      const place = { organization_id: '', app_id: '', bucket, producer_id, frame_no: frame_from };
      return { fault: 'frames_lost', table: `${kind}s`, ...place, rows: records, cells: 0 };
    });
}

async function gapsWithin(client: Pick<ClickHouse, 'query'>, slice: Slice): Promise<AuditFault[]> {
  const missing = await missingClicks(client, slice, settings);
  return missing.map(({ producer_id, frame_no, bucket_s, records }) => {
    const place = { organization_id: '', app_id: '', bucket: iso(bucket_s * 1000), producer_id, frame_no };
    return { fault: 'clicks_missing', table: 'clicks', ...place, rows: records, cells: 0 };
  });
}

/**
 * Runs a check a second time if it finds faults, and returns only what the second finds: an insert reaches the raw
 * table a moment before its rollups.
 */
async function confirmed(look: () => Promise<AuditFault[]>): Promise<AuditFault[]> {
  const first = await look();
  return first.length === 0 ? first : look();
}

const iso = (ms: number) => new Date(ms).toISOString();
const dayParams = (day: number) => ({ from: day, to: day + DAY_MS });

async function recordsOf(client: Pick<ClickHouse, 'query'>, kind: RawKind, day: number): Promise<number> {
  const rows = await client.query<{ n: number }>(
    `SELECT count() AS n FROM ${kind} WHERE ${time}`,
    dayParams(day),
    settings,
  );
  return rows[0]?.n ?? 0;
}

interface FaultRow {
  readonly organization_id: string;
  readonly app_id: string;
  readonly bucket_s: number;
  readonly n: number;
  readonly cells: number;
}

const place = 'log_partition, producer_id, frame_no, idx';
/** A reversed event has three rows (original, reversal, replacement), of which one counts. */
const eventCopies = `greatest(toInt64(count()) - toInt64(uniqExact(${place}, sign, is_learned)), abs(toInt64(uniqExact(${place})) - sum(sign)))`;

/** Finds rows beyond one per place of a record in the log. */
async function copiesOf(client: Pick<ClickHouse, 'query'>, kind: RawKind, slice: Slice): Promise<AuditFault[]> {
  const found = await client.query<FaultRow>(
    `SELECT organization_id, app_id, toUnixTimestamp(toStartOfHour(time, 'UTC')) AS bucket_s,
  ${kind === 'events' ? eventCopies : `toInt64(count()) - toInt64(uniqExact(${place}))`} AS n, 0 AS cells
FROM ${kind} WHERE ${time} GROUP BY organization_id, app_id, bucket_s HAVING n != 0 ORDER BY bucket_s, app_id`,
    { from: slice.from, to: slice.to },
    settings,
  );
  return found.map((row) => faultOf('record_stands_twice', kind, row));
}

/** Compares the cells of a rollup with the same cells recomputed from raw rows. */
async function differencesOf(client: Pick<ClickHouse, 'query'>, rollup: Rollup, slice: Slice): Promise<AuditFault[]> {
  const isByLink = rollup.table.endsWith('_by_link');
  const place = isByLink ? 'link_id, campaign' : 'dimension, value';
  const keys = `organization_id, app_id, ${place}, ${keysOf[rollup.raw]}, log_partition, bucket`;
  const figures = sumsOf[rollup.raw];
  const side = (sign: string) => figures.map((name) => `${sign}${signed(name)} AS d_${name}`).join(', ');
  const uniques = rollup.raw === 'clicks';
  const kept = slice.pick === '' ? bucket : `${slice.pick} AND ${bucket}`;
  const recomputed =
    slice.pick === '' ? rollup.select(time) : `SELECT * FROM (${rollup.select(time)}) WHERE ${slice.pick}`;
  const found = await client.query<FaultRow>(
    `SELECT organization_id, app_id, toUnixTimestamp(toStartOfHour(bucket, 'UTC')) AS bucket_s, sum(n_rows) AS n, count() AS cells FROM (
  SELECT ${keys}, ${figures.map((name) => `sum(d_${name}) AS n_${name}`).join(', ')}
  FROM (
    SELECT ${keys}, ${side('')}${uniques ? ', visitors AS v, 1 AS is_kept' : ''} FROM ${rollup.table} WHERE ${kept}
    UNION ALL
    SELECT ${keys}, ${side('-')}${uniques ? ', visitors AS v, 0 AS is_kept' : ''} FROM (${recomputed}))
  GROUP BY ${keys}
  HAVING ${figures.map((name) => `n_${name} != 0`).join(' OR ')}${
    uniques
      ? ' OR abs(toInt64(uniqCombinedMergeIf(15)(v, is_kept = 1)) - toInt64(uniqCombinedMergeIf(15)(v, is_kept = 0))) > 1 + 0.02 * uniqCombinedMergeIf(15)(v, is_kept = 0)'
      : ''
  })
GROUP BY organization_id, app_id, bucket_s ORDER BY bucket_s, app_id`,
    { from: slice.from, to: slice.to },
    settings,
  );
  return found.map((row) => faultOf('rollup_differs', rollup.table, row));
}

function signed(name: string): string {
  return name === 'revenue' ? 'revenue' : `toInt64(${name})`;
}

function faultOf(fault: AuditFault['fault'], table: string, row: FaultRow): AuditFault {
  const { organization_id, app_id, bucket_s, n, cells } = row;
  return { fault, table, organization_id, app_id, bucket: iso(bucket_s * 1000), rows: n, cells };
}
