/** The scope of a query, and the one place where it becomes a condition: tenant first, every value bound. */
import type { Params, Settings } from '#clickhouse/client.ts';
import type { RawKind } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';

/** Fields of records by which a query may be filtered and grouped. */
export const filterColumns = [
  'app_id',
  'link_id',
  'campaign',
  'platform',
  'country',
  'region',
  'city',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_term',
  'utm_content',
  'referrer',
  'browser',
  'os',
  'language',
  'event_name',
  'match_type',
  'match_certainty',
  'rule',
  'tag',
] as const;
export type FilterColumn = (typeof filterColumns)[number];

const noValue = "''";

/**
 * The rule that was applied to the click of an install or an event. It is looked up at query time, among the clicks of
 * these records only: a record in the log has the click id, and a click is never stored without its rule. Parameters:
 * those of scopeParams.
 */
function ruleOfClick(kind: 'installs' | 'events'): string {
  const tenant = 'organization_id IN {organization_ids:Array(String)}';
  const days = `toDate(time) >= toDate(fromUnixTimestamp64Milli({start_ms:Int64}, 'UTC')) AND toDate(time) <= toDate(fromUnixTimestamp64Milli({end_ms:Int64} - 1, 'UTC'))`;
  const led = `SELECT click_id FROM ${kind} WHERE ${tenant} AND ${days} AND click_id != ''`;
  const found = `(SELECT (groupArray(click_id), groupArray(toString(rule))) FROM clicks WHERE ${tenant} AND rule != ''
    AND (empty({rule_links:Array(String)}) OR link_id IN {rule_links:Array(String)}) AND click_id IN (${led}))`;
  return `transform(click_id, ${found}.1, ${found}.2, '')`;
}

/**
 * The SQL of fields that not every kind of record has, or that are not a column of the same name, by the kinds that
 * have them. For any other kind, the field is empty.
 */
const expressions: Partial<Record<FilterColumn, Partial<Record<RawKind, string>>>> = {
  referrer: { clicks: 'referrer_host' },
  browser: { clicks: 'browser', matches: 'browser' },
  os: { clicks: 'os', installs: 'os' },
  language: { clicks: 'language', installs: 'language' },
  event_name: { events: 'name' },
  rule: { clicks: 'rule', installs: ruleOfClick('installs'), events: ruleOfClick('events') },
  match_type: { installs: 'match_type', matches: 'match_type' },
  match_certainty: {
    installs: "multiIf(NOT attributed, 'none', match_guaranteed, 'guaranteed', 'probabilistic')",
  },
  // A filter by tag has the links with these tags as its values.
  tag: { clicks: 'link_id', installs: 'link_id', events: 'link_id', matches: 'link_id' },
};

/** The SQL of a field of one kind of record. @param names columns that a rollup has under another name. */
export function columnOf(kind: RawKind, column: FilterColumn, names: ColumnNames = {}): string {
  const special = expressions[column];
  return special === undefined ? (names[column] ?? column) : (special[kind] ?? noValue);
}

/** Whether records of this kind can have a value in the field. */
export function hasColumn(kind: RawKind, column: FilterColumn): boolean {
  return columnOf(kind, column) !== noValue;
}

export interface Filter {
  readonly values: readonly string[];
  /** If true, all values but these. */
  readonly isExclusion: boolean;
}

export type Filters = Readonly<Partial<Record<FilterColumn, Filter>>>;

/**
 * Which links have which tags. The link at each index has the set with the number (from 1) at the same index of
 * `set_nos`.
 */
export interface LinkTags {
  readonly link_ids: readonly string[];
  readonly set_nos: readonly number[];
  /** The first set is that of all other links. */
  readonly sets: readonly (readonly string[])[];
}

export interface Scope {
  /** What the caller may see. Empty means nothing. */
  readonly organization_ids: readonly string[];
  /** Epoch milliseconds, inclusive. */
  readonly start_ms: number;
  /** Epoch milliseconds, exclusive. */
  readonly end_ms: number;
  readonly filters: Filters;
  readonly include_bots: boolean;
  /** Only for queries that group by tag. */
  readonly tags?: LinkTags;
}

/** Columns that a rollup has under another name. */
export type ColumnNames = Readonly<Partial<Record<FilterColumn, string>>>;

/**
 * The condition on tenant and filters, without the time. Every read of records of tenants uses it. Its parameters are
 * those of scopeParams.
 */
export function tenantCondition(scope: Scope, kind: RawKind, names: ColumnNames = {}): string {
  const conditions = [isAmong('organization_id', 'organization_ids', scope.organization_ids, false)];
  for (const column of filterColumns) {
    const filter = scope.filters[column];
    if (!filter) continue;
    conditions.push(isAmong(columnOf(kind, column, names), `only_${column}`, filter.values, filter.isExclusion));
  }
  return conditions.join(' AND ');
}

/** Compares with one value if there is only one, since that costs less than a set lookup for every row. */
function isAmong(column: string, parameter: string, values: readonly string[], isExclusion: boolean): string {
  const bound = `{${parameter}:Array(String)}`;
  if (values.length === 1) return `${column} ${isExclusion ? '!=' : '='} ${bound}[1]`;
  return `${column} ${isExclusion ? 'NOT IN' : 'IN'} ${bound}`;
}

/**
 * The condition on the time of raw rows. Their key has the day long before the time, and ClickHouse uses the day only
 * if the condition contains it: without it, a query for an hour reads a whole month of the tenant.
 */
export function rawTimeCondition({ start_ms, end_ms }: Scope): string {
  const days = `toDate(time) >= toDate(fromUnixTimestamp64Milli({start_ms:Int64}, 'UTC')) AND toDate(time) <= toDate(fromUnixTimestamp64Milli({end_ms:Int64} - 1, 'UTC'))`;
  // Whole days are sufficient, and the time itself need not be read.
  if (start_ms % DAY_MS === 0 && end_ms % DAY_MS === 0) return days;
  return `time >= fromUnixTimestamp64Milli({start_ms:Int64}) AND time < fromUnixTimestamp64Milli({end_ms:Int64})\nAND ${days}`;
}

/**
 * The condition on the cells of a rollup; cells that the beginning or the end of the range cuts are handled elsewhere.
 * It compares whole seconds, as stored: comparing milliseconds would convert every cell first, which is a tenth of the
 * cost of a ranking.
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
    rule_links: linksOf(scope.filters),
  };
  for (const column of filterColumns) {
    const filter = scope.filters[column];
    if (filter) params[`only_${column}`] = [...filter.values];
  }
  if (scope.tags) {
    params['tag_links'] = [...scope.tags.link_ids];
    params['tag_set_nos'] = [...scope.tags.set_nos];
    params['tag_sets'] = scope.tags.sets.map((set) => [...set]);
  }
  return params;
}

/** The only links of which clicks can count; empty for all links. */
function linksOf({ link_id }: Filters): readonly string[] {
  return link_id === undefined || link_id.isExclusion ? [] : [...link_id.values];
}

/** Rounds up to the whole seconds of a DateTime. */
function secondsOf(ms: number): number {
  return Math.min(Math.max(0, Math.ceil(ms / 1000)), 2 ** 32 - 1);
}

/** Columns that the filters use. */
export function filteredColumns(scope: Scope): FilterColumn[] {
  return filterColumns.filter((column) => scope.filters[column] !== undefined);
}

/** The value by which a record is grouped; one with several tags is in the group of each. */
export function groupOf(kind: RawKind, column: FilterColumn, names: ColumnNames = {}): string {
  if (column !== 'tag') return `toString(${columnOf(kind, column, names)})`;
  return 'arrayJoin({tag_sets:Array(Array(String))}[transform(link_id, {tag_links:Array(String)}, {tag_set_nos:Array(UInt32)}, 1)])';
}

export interface Question {
  readonly sql: string;
  readonly params: Params;
  /** Settings for this query alone. */
  readonly settings?: Settings;
}
