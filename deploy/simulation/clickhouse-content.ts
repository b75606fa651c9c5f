/** The tables of the simulated ClickHouse: raw rows, the cells of rollups, tokens of inserts, and fences. */
import { kinds, rawKinds } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import { type FenceTables, fencesName } from './simulated-fences.ts';

/** The columns of a raw table that the simulation depends on. */
export interface SimulatedRow {
  /** Number of the record. */
  readonly n: number;
  readonly table: string;
  /** ClickHouse's partition, YYYYMM. */
  readonly month: string;
  readonly log_partition: number;
  readonly batch_no: number;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
  /** Epoch milliseconds. */
  readonly time: number;
  /** Identifies repeats of an event or install; empty for a click. */
  readonly id: string;
  /** The install of an event, which also stands for its link; empty if it has none. */
  readonly install: string;
  /** -1 for a row that reverses another. */
  readonly sign: 1 | -1;
  /** Whether it corrects an event after its install became known. */
  readonly isLearned: boolean;
}

export interface Cell {
  readonly table: string;
  readonly month: string;
  readonly log_partition: number;
  readonly bucket: number;
  rows: number;
  batch_no: number;
}

/** Thrown if the query was cancelled or the server died during it. */
export class QueryEnded extends Error {
  constructor() {
    super('The query was cancelled.');
    this.name = 'QueryEnded';
  }
}

/** Thrown for a statement that the server does not carry on with. */
export class Refused extends Error {
  constructor() {
    super('Memory limit exceeded.');
    this.name = 'Refused';
  }
}

/** Thrown for an insert below the fence. */
export class Fenced extends Error {
  constructor() {
    super('The fence is above this batch.');
    this.name = 'Fenced';
  }
}

export const rollupNames: readonly string[] = ['by_link', 'by_dimension'];
export const rawTables: readonly string[] = rawKinds;
/** The age in ms at which rows of a table expire; those of rollups expire as those of clicks. */
export const ageMaxOf: ReadonlyMap<string, number> = new Map(
  [...rawTables, 'dead_letters'].map((name) => [name, (name === 'matches' ? 90 : 730) * DAY_MS]),
);
const linksMax = 3;
const quarterMs = 900_000;

/** Matches have no rollup. */
export function rollupsOf(table: string): readonly string[] {
  return kinds.some((kind) => kind === table) ? rollupNames : [];
}

/** The cells of a rollup in which a row is counted. */
export function cellsOf(rollup: string, row: SimulatedRow): { key: string; bucket: number }[] {
  if (rollupsOf(row.table).length === 0) return [];
  const day = dayOf(row.time);
  const of = `${row.table}:${row.log_partition}`;
  const link = row.table === 'events' ? row.install : row.n % linksMax;
  if (rollup === 'by_link') return [{ key: `${of}:${link}:${day}`, bucket: day }];
  const quarter = Math.floor(row.time / quarterMs) * quarterMs;
  return [
    { key: `${of}:d:${day}`, bucket: day },
    { key: `${of}:q:${quarter}`, bucket: quarter },
  ];
}

export function dayOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

export interface Content {
  rows: SimulatedRow[];
  /** By rollup, by cell. Each cell belongs to one partition of the log. */
  rollups: Map<string, Map<string, Cell>>;
  /** By raw table or rollup. */
  tokens: Map<string, Set<string>>;
  fenceTables: FenceTables;
}

export function noContent(): Content {
  return {
    rows: [],
    rollups: new Map(rollupNames.map((name) => [name, new Map()])),
    tokens: new Map([...rawTables, ...rollupNames].map((name) => [name, new Set()])),
    fenceTables: new Map([[fencesName, new Map()]]),
  };
}

/** Copies one raw table or rollup. */
export function copyOver(from: Content, to: Content, name: string): void {
  const cells = from.rollups.get(name);
  if (cells === undefined) to.rows = [...to.rows, ...from.rows.filter((row) => row.table === name)];
  else to.rollups.set(name, new Map([...cells].map(([key, cell]) => [key, { ...cell }])));
  to.tokens.set(name, new Set(from.tokens.get(name)));
}

export function copyOf(content: Content): Content {
  const copy = noContent();
  for (const name of [...rawTables, ...rollupNames]) copyOver(content, copy, name);
  copy.fenceTables = content.fenceTables;
  return copy;
}
