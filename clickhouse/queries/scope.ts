/** What a question is about, and the one place in which it becomes a condition: tenant first, every value bound. */
import type { Params } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';

/** Columns that every kind of record has and that a question may be narrowed by. */
export const filterColumns = [
  'app_id',
  'link_id',
  'campaign',
  'platform',
  'country',
  'utm_source',
  'utm_medium',
] as const;
export type FilterColumn = (typeof filterColumns)[number];

export interface Filter {
  readonly values: readonly string[];
  /** All but these. */
  readonly isExclusion: boolean;
}

export type Filters = Readonly<Partial<Record<FilterColumn, Filter>>>;

export interface Scope {
  /** What the caller may see. Empty means nothing. */
  readonly organization_ids: readonly string[];
  /** Epoch milliseconds, inclusive. */
  readonly start_ms: number;
  /** Epoch milliseconds, exclusive. */
  readonly end_ms: number;
  readonly filters: Filters;
  readonly include_bots: boolean;
}

/** A rollup keeps some columns under another name. */
export type ColumnNames = Readonly<Partial<Record<FilterColumn, string>>>;

/**
 * The condition on tenant and filters, without the time. Whoever reads records of tenants uses this and nothing else.
 * Its parameters are those of scopeParams.
 */
export function tenantCondition(scope: Scope, names: ColumnNames = {}): string {
  const conditions = [isAmong('organization_id', 'organization_ids', scope.organization_ids, false)];
  for (const column of filterColumns) {
    const filter = scope.filters[column];
    if (!filter) continue;
    conditions.push(isAmong(names[column] ?? column, `only_${column}`, filter.values, filter.isExclusion));
  }
  return conditions.join(' AND ');
}

/** One value is compared, which costs less than looking it up in a set for every row. */
function isAmong(column: string, parameter: string, values: readonly string[], isExclusion: boolean): string {
  const bound = `{${parameter}:Array(String)}`;
  if (values.length === 1) return `${column} ${isExclusion ? '!=' : '='} ${bound}[1]`;
  return `${column} ${isExclusion ? 'NOT IN' : 'IN'} ${bound}`;
}

/**
 * The condition on the time of raw rows. Their key has the day long before the time, and ClickHouse finds rows by the day
 * only when it is told the day: without it, a question about an hour reads a whole month of the tenant.
 */
export function rawTimeCondition({ start_ms, end_ms }: Scope): string {
  const days = `toDate(time) >= toDate(fromUnixTimestamp64Milli({start_ms:Int64}, 'UTC')) AND toDate(time) <= toDate(fromUnixTimestamp64Milli({end_ms:Int64} - 1, 'UTC'))`;
  // Whole days say it all, and the time itself need not be read.
  if (start_ms % DAY_MS === 0 && end_ms % DAY_MS === 0) return days;
  return `time >= fromUnixTimestamp64Milli({start_ms:Int64}) AND time < fromUnixTimestamp64Milli({end_ms:Int64})\nAND ${days}`;
}

/**
 * The condition on the cells of a rollup; one that the beginning or the end cuts is not for it to judge. Compared as the
 * whole seconds that they are: against milliseconds each of them would be converted first, a tenth of a ranking.
 */
export const cellTimeCondition =
  "bucket >= toDateTime({start_s:UInt32}, 'UTC') AND bucket < toDateTime({end_s:UInt32}, 'UTC')";

export function scopeParams(scope: Scope): Params {
  const params: Record<string, unknown> = {
    organization_ids: [...scope.organization_ids],
    start_ms: scope.start_ms,
    end_ms: scope.end_ms,
    start_s: secondsOf(scope.start_ms),
    end_s: secondsOf(scope.end_ms),
  };
  for (const column of filterColumns) {
    const filter = scope.filters[column];
    if (filter) params[`only_${column}`] = [...filter.values];
  }
  return params;
}

/** As a DateTime can hold it, rounded up. */
function secondsOf(ms: number): number {
  return Math.min(Math.max(0, Math.ceil(ms / 1000)), 2 ** 32 - 1);
}

/** Columns that the filters look at. */
export function filteredColumns(scope: Scope): FilterColumn[] {
  return filterColumns.filter((column) => scope.filters[column] !== undefined);
}

export interface Question {
  readonly sql: string;
  readonly params: Params;
}
