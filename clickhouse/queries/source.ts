/** Chooses the smallest table that gives a figure exactly. */
import type { Kind } from '#clickhouse/rollups.ts';
import { dayDimensions } from '#clickhouse/rollups.ts';
import { type ColumnNames, type FilterColumn, filteredColumns, hasColumn, type Scope } from './scope.ts';

const quarterS = 900;
const dayS = 86_400;
const shortMs = 40 * dayS * 1000;
/**
 * Maximum number of rollup cells that boundaries may cut; their content is then read from raw rows. With more, a finer
 * table is cheaper. A range together with the previous range cuts three.
 */
const cutCellsMax = 4;

export type Source =
  | { readonly kind: 'raw' }
  | {
      readonly kind: 'rollup';
      readonly table: string;
      /** A condition that selects the dimension; empty for tables without dimensions. */
      readonly pick: string;
      readonly names: ColumnNames;
      /** Beginnings (epoch seconds) of the cells that a boundary cuts; they are read from raw rows instead. */
      readonly cutCells: readonly number[];
      readonly cellSeconds: number;
    };

/**
 * @param columns what the query groups by, besides its filters. @param boundariesMs every instant at which the query
 * begins, ends or changes its bucket.
 */
export function sourceOf(
  kind: Kind,
  scope: Scope,
  columns: readonly FilterColumn[],
  boundariesMs: readonly number[],
): Source {
  const asked = [...filteredColumns(scope), ...columns].map((column) => (column === 'tag' ? 'link_id' : column));
  const needed = new Set(asked.filter((column) => column !== 'app_id' && hasColumn(kind, column)));
  const daily = dailySource(kind, [...needed]);
  const cutDays = cutCells(boundariesMs, dayS, scope);
  const cutQuarters = cutCells(boundariesMs, quarterS, scope);
  // For more than a month, whole quarters cost less than days with raw rows between them.
  const isShort = needed.size === 0 && cutQuarters?.length === 0 && scope.end_ms - scope.start_ms <= shortMs;
  if (needed.size === 0 && cutDays && cutDays.length > 0 && cutQuarters?.length === 0 && !isShort) {
    return daysAndQuarters(kind, cutDays);
  }
  if (daily && cutDays && (cutDays.length === 0 || !isShort)) {
    return { ...daily, cutCells: cutDays, cellSeconds: dayS };
  }
  if (needed.size === 0 && cutQuarters) {
    return {
      kind: 'rollup',
      table: `${kind}_by_dimension`,
      pick: "dimension = 'quarter'",
      names: {},
      cutCells: cutQuarters,
      cellSeconds: quarterS,
    };
  }
  return { kind: 'raw' };
}

/** Whole days, and quarters of the days that a boundary cuts: one flat query, since both are in one table. */
function daysAndQuarters(kind: Kind, cutDays: readonly number[]): Source {
  const at = (seconds: number) => `toDateTime(${seconds}, 'UTC')`;
  const quarters = cutDays.map((day) => `(bucket >= ${at(day)} AND bucket < ${at(day + dayS)})`).join(' OR ');
  const days = `dimension = 'day' AND toUnixTimestamp(bucket) NOT IN (${cutDays.join(', ')})`;
  return {
    kind: 'rollup',
    table: `${kind}_by_dimension`,
    pick: `((${days}) OR (dimension = 'quarter' AND (${quarters})))`,
    names: {},
    cutCells: [],
    cellSeconds: quarterS,
  };
}

type Daily = Omit<Extract<Source, { kind: 'rollup' }>, 'cutCells' | 'cellSeconds'>;

function dailySource(kind: Kind, needed: readonly FilterColumn[]): Daily | null {
  const [first] = needed;
  const table = `${kind}_by_dimension`;
  if (first === undefined) return { kind: 'rollup', table, pick: "dimension = 'day'", names: {} };
  const dimension = dayDimensions.find((one) => one === first);
  if (needed.length === 1 && dimension) {
    return { kind: 'rollup', table, pick: `dimension = '${dimension}'`, names: { [dimension]: 'value' } };
  }
  const isByLink = needed.every((column) => column === 'link_id' || column === 'campaign');
  return isByLink ? { kind: 'rollup', table: `${kind}_by_link`, pick: '', names: {} } : null;
}

/** The cells that boundaries cut; null if these are too many, or most of the range. */
function cutCells(boundariesMs: readonly number[], cellSeconds: number, scope: Scope): number[] | null {
  const cut = new Set<number>();
  for (const boundary of boundariesMs) {
    const cell = Math.floor(boundary / 1000 / cellSeconds) * cellSeconds;
    if (cell * 1000 === boundary) continue;
    cut.add(cell);
    if (cut.size > cutCellsMax) return null;
  }
  const cells = (scope.end_ms - scope.start_ms) / 1000 / cellSeconds;
  return cut.size > 0 && cut.size * 2 > cells ? null : [...cut];
}
