/**
 * Queries the figures of clicks, installs and events under common keys. Each kind is read from its own smallest table;
 * rollup cells that a boundary cuts are read from raw rows, so the sums are the same either way.
 *
 * Parsing a query costs ClickHouse more than reading these few rows (6 ms against 1 to 3), so each query is as flat as
 * possible. Kinds that need no common order are queried in parallel (figureParts) instead of in one UNION.
 */
import { isInstall, type Kind } from '#clickhouse/rollups.ts';
import {
  type ColumnNames,
  cellTimeCondition,
  type FilterColumn,
  groupOf,
  type Question,
  rawTimeCondition,
  type Scope,
  scopeParams,
  tenantCondition,
} from './scope.ts';
import { type Source, sourceOf } from './source.ts';

export interface FigureKeys {
  /** Beginnings of buckets in epoch milliseconds; so is the key `slot`. A beginning before 1970 is raised to 1970. */
  readonly slots_ms?: readonly number[];
  /** Each becomes a key `k_<column>`. */
  readonly columns?: readonly FilterColumn[];
  /** Keeps these values of the one column and combines all others as `\\0`, which no stored text contains. */
  readonly top?: readonly string[];
  /** Adds a row for all slots together, whose `slot` is 0. Only for clicks, since a visitor may be in several slots. */
  readonly withWhole?: boolean;
  /** Default true: one row per currency. Without it f_currency and f_revenue are missing or empty. */
  readonly withRevenue?: boolean;
  /** Unique visitors cost more than everything else; without them f_unique_clicks is missing or 0. */
  readonly withUniques: boolean;
  /** Without them f_bot_clicks is missing or 0. */
  readonly withBots: boolean;
}

/** One row of figures as JSON; figures of other kinds are missing. */
export interface FigureRow {
  /** Beginning of the bucket, epoch milliseconds. */
  readonly slot: number;
  readonly grp: string;
  readonly f_clicks?: number;
  readonly f_bot_clicks?: number;
  readonly f_unique_clicks?: number;
  readonly f_installs?: number;
  readonly f_organic_installs?: number;
  readonly f_reinstalls?: number;
  readonly f_opens?: number;
  readonly f_reengagements?: number;
  readonly f_events?: number;
  readonly f_conversions?: number;
  /** '' unless the events of the row have revenue. */
  readonly f_currency?: string;
  /** An exact decimal. */
  readonly f_revenue?: string;
}

/** The key of the bucket with this beginning. */
export function slotOf(ms: number): number {
  return Math.max(0, ms);
}

type Figure = Exclude<keyof FigureRow, 'slot' | 'grp'>;

const nothing: Record<Figure, string> = {
  f_clicks: 'toUInt64(0)',
  f_bot_clicks: 'toUInt64(0)',
  f_unique_clicks: 'toUInt64(0)',
  f_installs: 'toUInt64(0)',
  f_organic_installs: 'toUInt64(0)',
  f_reinstalls: 'toUInt64(0)',
  f_opens: 'toUInt64(0)',
  f_reengagements: 'toUInt64(0)',
  f_events: 'toUInt64(0)',
  f_conversions: 'toUInt64(0)',
  f_currency: "''",
  f_revenue: 'toDecimal128(0, 9)',
};

/** One query per kind, with rows as FigureRow. */
export function figureParts(scope: Scope, keys: FigureKeys, kinds: readonly Kind[]): Question[] {
  return kinds.map((kind) => ({
    sql: part(kind, scope, keys, (own) => ({
      ...own,
      ...(own.f_revenue ? { f_revenue: `toString(${own.f_revenue})` } : {}),
    })),
    params: figureParams(scope, keys),
  }));
}

/**
 * One subquery with a row for each key, kind and currency; every column of FigureRow but slot and grp, and the keys.
 */
export function figures(scope: Scope, keys: FigureKeys): Question {
  const parts = (['clicks', 'installs', 'events'] as const).map((kind) =>
    part(kind, scope, keys, (own) => ({ ...nothing, ...own })),
  );
  return { sql: parts.join('\nUNION ALL\n'), params: figureParams(scope, keys) };
}

/** One subquery with the keys and f_records, a row for each cell or record of any kind. */
export function keysAlone(scope: Scope, columns: readonly FilterColumn[]): Question {
  const keys: FigureKeys = { columns, withUniques: false, withBots: false };
  const parts = (['clicks', 'installs', 'events'] as const).flatMap((kind) => {
    const source = figureSource(kind, scope, keys);
    const names = source.kind === 'rollup' ? source.names : {};
    const one = kind === 'events' ? 'toUInt64(sign)' : 'toUInt64(1)';
    const records = source.kind === 'rollup' ? 'rows' : one;
    const whole = `SELECT ${keyExpressions(kind, keys, 'bucket', names).join(', ')}, ${records} AS f_records FROM ${wholeCells(kind, source, scope, keys)}`;
    if (source.kind === 'raw' || source.cutCells.length === 0) return [whole];
    const cut = `SELECT ${keyExpressions(kind, keys, 'time', {}).join(', ')}, ${one} AS f_records FROM ${rawCells(kind, source, scope, keys)}`;
    return [whole, cut];
  });
  return { sql: parts.join('\nUNION ALL\n'), params: figureParams(scope, keys) };
}

function figureParams(scope: Scope, keys: FigureKeys): Question['params'] {
  return {
    ...scopeParams(scope),
    ...(keys.slots_ms ? { slots: keys.slots_ms.map(slotOf) } : {}),
    ...(keys.top ? { top: [...keys.top] } : {}),
  };
}

/** The table from which a kind is read. */
function figureSource(kind: Kind, scope: Scope, keys: FigureKeys): Source {
  const inner = (keys.slots_ms ?? []).filter((slot) => slot > scope.start_ms && slot < scope.end_ms);
  return sourceOf(kind, scope, keys.columns ?? [], [scope.start_ms, ...inner, scope.end_ms]);
}

type Figures = Partial<Record<Figure, string>>;

function part(kind: Kind, scope: Scope, keys: FigureKeys, finish: (own: Figures) => Figures): string {
  const source = figureSource(kind, scope, keys);
  const figures = finish(figuresOf(kind, scope, keys, source.kind === 'raw'));
  const names = source.kind === 'rollup' ? source.names : {};
  const isCut = source.kind === 'rollup' && source.cutCells.length > 0;
  const time = source.kind === 'raw' ? 'time' : 'bucket';
  const expressions = isCut ? keyNames(keys) : keyExpressions(kind, keys, time, names);
  const columns = Object.entries(figures).map(([name, expression]) => `${expression} AS ${name}`);
  return `SELECT ${[...expressions, ...columns].join(', ')}
FROM ${fromOf(kind, source, scope, keys)}${groupingOf(kind, keys)}`;
}

function groupingOf(kind: Kind, keys: FigureKeys): string {
  const names = [...keyNames(keys), ...(kind === 'events' && keys.withRevenue !== false ? ['revenue_currency'] : [])];
  if (names.length === 0) return '';
  // If all events were reversed, no row remains, not even its currency.
  if (kind === 'events') return `\nGROUP BY ${names.join(', ')} HAVING f_events != 0`;
  const isWithWhole = keys.withWhole === true && kind === 'clicks';
  return isWithWhole ? `\nGROUP BY GROUPING SETS ((${names.join(', ')}), ())` : `\nGROUP BY ${names.join(', ')}`;
}

function fromOf(kind: Kind, source: Source, scope: Scope, keys: FigureKeys): string {
  const whole = wholeCells(kind, source, scope, keys);
  if (source.kind === 'raw' || source.cutCells.length === 0) return whole;
  const { keys: own, sums, fromRaw } = carried[kind];
  const columns = [...keyExpressions(kind, keys, 'bucket', source.names), ...own, ...sums];
  const cut = [...keyExpressions(kind, keys, 'time', {}), ...own, ...fromRaw];
  return `(SELECT ${columns.join(', ')} FROM ${whole}
UNION ALL
SELECT ${cut.join(', ')} FROM ${rawCells(kind, source, scope, keys)} GROUP BY ${[...keyNames(keys), ...own].join(', ')})`;
}

/** The table and its condition, without the cells that a boundary cuts. */
function wholeCells(kind: Kind, source: Source, scope: Scope, keys: FigureKeys): string {
  const bots = botCondition(kind, scope, keys);
  if (source.kind === 'raw') {
    return `${kind} WHERE ${[tenantCondition(scope, kind), rawTimeCondition(scope), ...bots].join(' AND ')}`;
  }
  const { table, pick, names, cutCells } = source;
  const conditions = [
    tenantCondition(scope, kind, names),
    ...(pick === '' ? [] : [pick]),
    // A cell that is cut by the beginning or the end of the range is one of the cut cells.
    cellTimeCondition,
    ...(cutCells.length > 0 ? [`toUnixTimestamp(bucket) NOT IN (${cutCells.join(', ')})`] : []),
    ...bots,
  ];
  return `${table} WHERE ${conditions.join(' AND ')}`;
}

/** Columns of a rollup besides its keys, and how raw rows become the sums. */
const carried: Record<Kind, { keys: readonly string[]; sums: readonly string[]; fromRaw: readonly string[] }> = {
  clicks: {
    keys: ['is_bot'],
    sums: ['rows', 'visitors'],
    fromRaw: ['count() AS rows', 'uniqCombinedState(15)(visitor) AS visitors'],
  },
  installs: {
    keys: ['attributed'],
    sums: ['rows', 'reinstalls', 'opens', 'reengagements'],
    fromRaw: [
      'count() AS rows',
      "countIf(trigger = 'reinstall') AS reinstalls",
      `countIf(NOT (${isInstall})) AS opens`,
      "countIf(trigger = 'reengagement') AS reengagements",
    ],
  },
  events: {
    keys: ['revenue_currency'],
    sums: ['rows', 'conversions', 'revenue'],
    fromRaw: [
      'toUInt64(sum(sign)) AS rows',
      'toUInt64(sumIf(sign, is_conversion)) AS conversions',
      'sum(ifNull(revenue_amount, 0) * sign) AS revenue',
    ],
  },
};

/** The raw table and the condition that selects the content of the cut cells. */
function rawCells(
  kind: Kind,
  { cutCells, cellSeconds }: Extract<Source, { kind: 'rollup' }>,
  scope: Scope,
  keys: FigureKeys,
): string {
  const at = (seconds: number) => `toDateTime64(${seconds}, 3, 'UTC')`;
  const ranges = cutCells.map((cell) => `(time >= ${at(cell)} AND time < ${at(cell + cellSeconds)})`);
  const days = new Set(cutCells.map((cell) => `toDate(${Math.floor(cell / 86_400)})`));
  const conditions = [
    tenantCondition(scope, kind),
    rawTimeCondition(scope),
    `toDate(time) IN (${[...days].join(', ')})`,
    `(${ranges.join(' OR ')})`,
    ...botCondition(kind, scope, keys),
  ];
  return `${kind} WHERE ${conditions.join(' AND ')}`;
}

function figuresOf(kind: Kind, scope: Scope, keys: FigureKeys, isRaw: boolean): Figures {
  switch (kind) {
    case 'clicks':
      return clickFigures(scope, keys, isRaw);
    case 'installs':
      return isRaw
        ? {
            f_installs: `countIf(${isInstall})`,
            f_organic_installs: `countIf(NOT attributed AND ${isInstall})`,
            f_reinstalls: "countIf(trigger = 'reinstall')",
            f_opens: `countIf(NOT (${isInstall}))`,
            f_reengagements: "countIf(trigger = 'reengagement')",
          }
        : {
            f_installs: 'toUInt64(sum(rows) - sum(opens))',
            f_organic_installs: 'toUInt64(sumIf(rows, NOT attributed) - sumIf(opens, NOT attributed))',
            f_reinstalls: 'sum(reinstalls)',
            f_opens: 'sum(opens)',
            f_reengagements: 'sum(reengagements)',
          };
    case 'events':
      return {
        ...(isRaw
          ? { f_events: 'toUInt64(sum(sign))', f_conversions: 'toUInt64(sumIf(sign, is_conversion))' }
          : { f_events: 'sum(rows)', f_conversions: 'sum(conversions)' }),
        ...(keys.withRevenue === false
          ? {}
          : {
              f_currency: 'revenue_currency',
              f_revenue: isRaw ? 'sum(ifNull(revenue_amount, toDecimal128(0, 9)) * sign)' : 'sum(revenue)',
            }),
      };
  }
}

function clickFigures(scope: Scope, keys: FigureKeys, isRaw: boolean): Figures {
  // The table's rows include bots; the figures do so only if the number of bots is requested.
  const isMixed = keys.withBots && !scope.include_bots;
  const sum = (isOnly: '' | 'NOT is_bot' | 'is_bot') => {
    if (isOnly === '') return isRaw ? 'count()' : 'sum(rows)';
    return isRaw ? `countIf(${isOnly})` : `sumIf(rows, ${isOnly})`;
  };
  const uniq = isRaw ? ['uniqCombined', 'visitor'] : ['uniqCombinedMerge', 'visitors'];
  const unique = isMixed ? `${uniq[0]}If(15)(${uniq[1]}, NOT is_bot)` : `${uniq[0]}(15)(${uniq[1]})`;
  return {
    f_clicks: sum(isMixed ? 'NOT is_bot' : ''),
    ...(keys.withBots ? { f_bot_clicks: sum('is_bot') } : {}),
    ...(keys.withUniques ? { f_unique_clicks: unique } : {}),
  };
}

function botCondition(kind: Kind, scope: Scope, keys: FigureKeys): string[] {
  return kind === 'clicks' && !scope.include_bots && !keys.withBots ? ['NOT is_bot'] : [];
}

function keyNames(keys: FigureKeys): string[] {
  return [...(keys.slots_ms ? ['slot'] : []), ...(keys.columns ?? []).map((column) => `k_${column}`)];
}

function keyExpressions(kind: Kind, keys: FigureKeys, time: 'time' | 'bucket', names: ColumnNames): string[] {
  const expressions: string[] = [];
  if (keys.slots_ms) {
    // Rollup cells that a slot cuts are read from raw rows, so whole seconds suffice to assign the other cells.
    const ms = time === 'bucket' ? 'toInt64(toUnixTimestamp(bucket)) * 1000' : 'toUnixTimestamp64Milli(time)';
    expressions.push(`roundDown(${ms}, {slots:Array(Int64)}) AS slot`);
  }
  for (const column of keys.columns ?? []) {
    const group = groupOf(kind, column, names);
    const value = keys.top ? `if(has({top:Array(String)}, ${group}), ${group}, '\\0')` : group;
    expressions.push(`${value} AS k_${column}`);
  }
  return expressions;
}
