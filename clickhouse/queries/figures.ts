/**
 * The figures of clicks, installs and events under common keys, as one subquery. Each kind is read from its own smallest
 * table; cells of a rollup that a boundary cuts are read raw, so the sums are the same whichever way they were found.
 *
 * Columns of the result: the keys (slot, k_<column>), then f_clicks, f_bot_clicks, f_unique_clicks, f_installs, f_organic_installs, f_events,
 * f_conversions, f_currency ('' unless the row is about revenue), f_revenue. Up to one row for each kind and currency.
 */
import type { Kind } from '#clickhouse/rollups.ts';
import {
  type ColumnNames,
  type FilterColumn,
  type Question,
  rawTimeCondition,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';
import { type Source, sourceOf } from './source.ts';

/** Stands for all values that are not among the first ones; no stored text holds a NUL. */
export const otherValue = '\0';

export interface FigureKeys {
  /** Beginnings of buckets, epoch milliseconds; the key `slot` is the beginning in seconds. */
  readonly slots_ms?: readonly number[];
  readonly columns?: readonly FilterColumn[];
  /** Keeps these values of the one column and puts all others together as `otherValue`. */
  readonly top?: readonly string[];
  /** Unique visitors cost more than all the rest; without them f_unique_clicks is 0. */
  readonly withUniques: boolean;
  /** Without them f_bot_clicks is 0. */
  readonly withBots: boolean;
}

export function figures(scope: Scope, keys: FigureKeys): Question {
  const parts = (['clicks', 'installs', 'events'] as const).map((kind) => part(kind, scope, keys));
  const params = {
    ...scopeParams(scope),
    ...(keys.slots_ms ? { slots: keys.slots_ms.map((ms) => Math.floor(ms / 1000)) } : {}),
    ...(keys.top ? { top: [...keys.top] } : {}),
  };
  return { sql: parts.join('\nUNION ALL\n'), params };
}

/** Where each kind would be read from, for tests and for looking at. */
export function figureSource(kind: Kind, scope: Scope, keys: FigureKeys): Source {
  return sourceOf(kind, scope, keys.columns ?? [], boundaries(scope, keys));
}

function boundaries(scope: Scope, keys: FigureKeys): number[] {
  const inner = (keys.slots_ms ?? []).filter((slot) => slot > scope.start_ms && slot < scope.end_ms);
  return [scope.start_ms, ...inner, scope.end_ms];
}

interface Measure {
  /** Columns that stay beside the keys until they are summed up. */
  readonly carried: string;
  readonly fromRollup: string;
  readonly fromRaw: string;
  readonly figures: (scope: Scope, keys: FigureKeys) => string;
  readonly isGroupedBy: string;
}

const measures: Record<Kind, Measure> = {
  clicks: {
    carried: 'is_bot',
    fromRollup: 'rows AS n, visitors AS v',
    fromRaw: 'count() AS n, uniqCombinedState(15)(visitor) AS v',
    figures: (scope, keys) => {
      const unique = scope.include_bots ? 'uniqCombinedMerge(15)(v)' : 'uniqCombinedMergeIf(15)(v, NOT is_bot)';
      return `${scope.include_bots ? 'sum(n)' : 'sumIf(n, NOT is_bot)'} AS f_clicks, sumIf(n, is_bot) AS f_bot_clicks,
  ${keys.withUniques ? unique : 'toUInt64(0)'} AS f_unique_clicks, toUInt64(0) AS f_installs, toUInt64(0) AS f_organic_installs,
  toUInt64(0) AS f_events, toUInt64(0) AS f_conversions, '' AS f_currency, toDecimal128(0, 9) AS f_revenue`;
    },
    isGroupedBy: '',
  },
  installs: {
    carried: 'attributed',
    fromRollup: 'rows AS n',
    fromRaw: 'count() AS n',
    figures: () => `toUInt64(0) AS f_clicks, toUInt64(0) AS f_bot_clicks, toUInt64(0) AS f_unique_clicks,
  sum(n) AS f_installs, sumIf(n, NOT attributed) AS f_organic_installs,
  toUInt64(0) AS f_events, toUInt64(0) AS f_conversions, '' AS f_currency, toDecimal128(0, 9) AS f_revenue`,
    isGroupedBy: '',
  },
  events: {
    carried: 'revenue_currency',
    fromRollup: 'rows AS n, conversions AS c, revenue AS r',
    fromRaw: 'count() AS n, countIf(is_conversion) AS c, sum(ifNull(revenue_amount, 0)) AS r',
    figures: () => `toUInt64(0) AS f_clicks, toUInt64(0) AS f_bot_clicks, toUInt64(0) AS f_unique_clicks,
  toUInt64(0) AS f_installs, toUInt64(0) AS f_organic_installs,
  sum(n) AS f_events, sum(c) AS f_conversions, revenue_currency AS f_currency, sum(r) AS f_revenue`,
    isGroupedBy: 'revenue_currency',
  },
};

function part(kind: Kind, scope: Scope, keys: FigureKeys): string {
  const source = figureSource(kind, scope, keys);
  const measure = measures[kind];
  const names = keyNames(keys);
  const grouping = [...names, measure.isGroupedBy].filter((name) => name !== '');
  return `SELECT ${[...names, ''].join(', ')}${measure.figures(scope, keys)}
FROM (${inner(kind, source, scope, keys)})${grouping.length > 0 ? `\nGROUP BY ${grouping.join(', ')}` : ''}`;
}

function inner(kind: Kind, source: Source, scope: Scope, keys: FigureKeys): string {
  if (source.kind === 'raw') return fromRaw(kind, scope, keys, rawTimeCondition);
  const { table, pick, names, cutCells, cellSeconds } = source;
  const selected = keyExpressions(keys, 'toUnixTimestamp(bucket)', names);
  const cut = cutCells.join(', ');
  const conditions = [
    tenantCondition(scope, names),
    ...(pick === '' ? [] : [pick]),
    // A cell that the beginning or the end cuts is among the cut ones.
    'bucket >= fromUnixTimestamp64Milli({start_ms:Int64}) AND bucket < fromUnixTimestamp64Milli({end_ms:Int64})',
    ...(cut === '' ? [] : [`toUnixTimestamp(bucket) NOT IN (${cut})`]),
    ...botCondition(kind, scope, keys),
  ];
  const rolled = `SELECT ${selected}${measures[kind].carried}, ${measures[kind].fromRollup} FROM ${table} WHERE ${conditions.join(' AND ')}`;
  if (cut === '') return rolled;
  const ranges = cutCells.map(
    (cell) => `(time >= toDateTime64(${cell}, 3, 'UTC') AND time < toDateTime64(${cell + cellSeconds}, 3, 'UTC'))`,
  );
  return `${rolled}\nUNION ALL\n${fromRaw(kind, scope, keys, `${rawTimeCondition} AND (${ranges.join(' OR ')})`)}`;
}

function botCondition(kind: Kind, scope: Scope, keys: FigureKeys): string[] {
  return kind === 'clicks' && !scope.include_bots && !keys.withBots ? ['NOT is_bot'] : [];
}

function keyNames(keys: FigureKeys): string[] {
  return [...(keys.slots_ms ? ['slot'] : []), ...(keys.columns ?? []).map((column) => `k_${column}`)];
}

function fromRaw(kind: Kind, scope: Scope, keys: FigureKeys, time: string): string {
  const { carried, fromRaw: sums } = measures[kind];
  const conditions = [tenantCondition(scope), time, ...botCondition(kind, scope, keys)];
  return `SELECT ${keyExpressions(keys, 'toUnixTimestamp(time)', {})}${carried}, ${sums} FROM ${kind}
WHERE ${conditions.join(' AND ')} GROUP BY ${[...keyNames(keys), carried].join(', ')}`;
}

function keyExpressions(keys: FigureKeys, seconds: string, names: ColumnNames): string {
  const expressions: string[] = [];
  if (keys.slots_ms) expressions.push(`roundDown(toUInt32(${seconds}), {slots:Array(UInt32)}) AS slot`);
  for (const column of keys.columns ?? []) {
    const name = names[column] ?? column;
    const value = keys.top ? `if(has({top:Array(String)}, ${name}), toString(${name}), '\\0')` : `toString(${name})`;
    expressions.push(`${value} AS k_${column}`);
  }
  return [...expressions, ''].join(', ');
}
