/**
 * The simulated ClickHouse: raw tables with views that feed rollups, a fence that inserts check, and queries that run
 * for a while and can be cancelled. An insert reaches the raw table first and then one rollup after another. In each,
 * the token is written before the part is in place: a crash in between loses the part, and a retry with the same token
 * is dropped.
 *
 * It can be restored from a backup, in which each table dates from a different moment.
 */
import { kinds, rawKinds } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Fence, TableDay } from '#ingest/raw-store.ts';
import { CallableServer } from './server-call.ts';

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

interface Cell {
  readonly table: string;
  readonly month: string;
  readonly log_partition: number;
  readonly bucket: number;
  rows: number;
  batch_no: number;
}

/** A query that changes stored data. */
interface Running {
  readonly partition: number;
  isKilled: boolean;
}

/** Thrown if the query was cancelled or the server died during it. */
export class QueryEnded extends Error {
  constructor() {
    super('The query was cancelled.');
    this.name = 'QueryEnded';
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
const linksMax = 3;
const quarterMs = 900_000;
const restartMsMax = 300;
const repairLateMsMax = 20_000;
/** Maximum time between the copies of two tables in a backup. */
const backupMsMax = 3_000;

/** Matches have no rollup. */
export function rollupsOf(table: string): readonly string[] {
  return kinds.some((kind) => kind === table) ? rollupNames : [];
}

/** The cells of a rollup in which a row is counted. */
function cellsOf(rollup: string, row: SimulatedRow): { key: string; bucket: number }[] {
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

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

interface Content {
  rows: SimulatedRow[];
  /** By rollup, by cell. Each cell belongs to one partition of the log. */
  rollups: Map<string, Map<string, Cell>>;
  /** By raw table or rollup. */
  tokens: Map<string, Set<string>>;
  fences: Map<number, Fence>;
}

function noContent(): Content {
  return {
    rows: [],
    rollups: new Map(rollupNames.map((name) => [name, new Map()])),
    tokens: new Map([...rawTables, ...rollupNames].map((name) => [name, new Set()])),
    fences: new Map(),
  };
}

/** Copies one raw table or rollup. */
function copyOver(from: Content, to: Content, name: string): void {
  const cells = from.rollups.get(name);
  if (cells === undefined) to.rows = [...to.rows, ...from.rows.filter((row) => row.table === name)];
  else to.rollups.set(name, new Map([...cells].map(([key, cell]) => [key, { ...cell }])));
  to.tokens.set(name, new Set(from.tokens.get(name)));
}

function copyOf(content: Content): Content {
  const copy = noContent();
  for (const name of [...rawTables, ...rollupNames]) copyOver(content, copy, name);
  copy.fences = new Map(content.fences);
  return copy;
}

export class SimulatedClickHouse extends CallableServer {
  readonly hits = {
    crashed: 0,
    part_lost: 0,
    killed_queries: 0,
    fenced: 0,
    late_repairs: 0,
    restored: 0,
    rows_lost_in_restore: 0,
  };
  /** Maximum milliseconds between two steps of an insert. */
  stepMsMax = 1;
  /** Probability that the server dies at a step of an insert. */
  diesInStep = 0;
  /** Probability that a statement which adds to a rollup arrives long after its client has lost the connection. */
  repairsLate = 0;
  #content = noContent();
  #backup = { content: noContent(), begunAt: 0 };
  #running = new Set<Running>();

  get rows(): readonly SimulatedRow[] {
    return this.#content.rows;
  }

  cellsOf(rollup: string): readonly Cell[] {
    return [...(this.#content.rollups.get(rollup)?.values() ?? [])];
  }

  crash(): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.hits.crashed++;
    for (const query of this.#running) query.isKilled = true;
    this.#running = new Set();
  }

  /**
   * Copies each table at a different moment. The backup is complete only if the server survives until all are copied.
   */
  backUp(): void {
    const { run, scheduler } = this;
    const [copy, begunAt] = [noContent(), scheduler.now];
    copy.fences = new Map(this.#content.fences);
    const left = new Set([...rawTables, ...rollupNames]);
    for (const name of [...left]) {
      scheduler.after(scheduler.random.next() * backupMsMax, () => {
        if (this.run !== run || !this.isUp) return;
        copyOver(this.#content, copy, name);
        left.delete(name);
        if (left.size === 0) this.#backup = { content: copy, begunAt };
      });
    }
  }

  /** Restores the last backup. @returns the rows that this loses, and when the backup was started (true time). */
  restore(): { lost: readonly SimulatedRow[]; begunAt: number } {
    this.crash();
    this.hits.restored++;
    const kept = new Set(this.#backup.content.rows);
    const lost = this.#content.rows.filter((row) => !kept.has(row));
    this.#content = copyOf(this.#backup.content);
    this.hits.rows_lost_in_restore += lost.length;
    return { lost, begunAt: this.#backup.begunAt };
  }

  fenceOf(partition: number): Fence {
    return this.#content.fences.get(partition) ?? { batchNoMin: 0, owner: '' };
  }

  /** Partitions with a fence. */
  get partitions(): readonly number[] {
    return [...this.#content.fences.keys()];
  }

  setFence(partition: number, fence: Fence): void {
    this.#content.fences.set(partition, fence);
  }

  /** How many queries of a partition still run. */
  running(partition: number): number {
    let count = 0;
    for (const query of this.#running) if (query.partition === partition) count++;
    return count;
  }

  /** Cancels the queries of a partition; each ends at its next step. */
  kill(partition: number): void {
    for (const query of this.#running) {
      if (query.partition !== partition || query.isKilled) continue;
      query.isKilled = true;
      this.hits.killed_queries++;
    }
  }

  /** @throws QueryEnded, Fenced */
  async insert(partition: number, rows: readonly SimulatedRow[], token: string): Promise<void> {
    await this.#run(partition, async (step) => {
      await step();
      const fence = this.fenceOf(partition).batchNoMin;
      if (rows.some((row) => row.batch_no < fence)) {
        this.hits.fenced++;
        throw new Fenced();
      }
      const table = rows[0]?.table ?? '';
      await this.#place(step, table, token, () => this.#content.rows.push(...rows));
      for (const rollup of rollupsOf(table)) {
        await this.#place(step, rollup, token, () => this.#count(rollup, rows));
      }
      await step();
    });
  }

  #isInForce(partition: number, { owner, batchNoMin }: Fence): boolean {
    const inForce = this.fenceOf(partition);
    return inForce.owner === owner && inForce.batchNoMin === batchNoMin;
  }

  /** Counts stored rows in a rollup, as its view would have. @throws QueryEnded */
  async fillIn(partition: number, rollup: string, fence: Fence, isWanted: (row: SimulatedRow) => boolean) {
    await this.#run(partition, async (step) => {
      if (!this.#isInForce(partition, fence)) return;
      const rows = this.#content.rows.filter(isWanted);
      await step();
      this.#count(rollup, rows);
      await step();
    });
  }

  /** @returns whether a statement that adds to a rollup was intercepted, to be executed later. */
  isRepairLate(carryOut: () => Promise<void>): boolean {
    const { run, scheduler } = this;
    if (this.repairsLate === 0 || scheduler.random.next() >= this.repairsLate) return false;
    scheduler.after(scheduler.random.next() * repairLateMsMax, () => {
      if (this.isUp && this.run === run) carryOut().catch(() => undefined);
    });
    this.hits.late_repairs++;
    return true;
  }

  /** Days with rows or cells of a partition that belong to batches above a number. */
  daysAbove(partition: number, batchNo: number): TableDay[] {
    const days = new Map<string, TableDay>();
    const note = (of: { table: string; log_partition: number; batch_no: number }, time: number) => {
      if (of.log_partition !== partition || of.batch_no <= batchNo || rollupsOf(of.table).length === 0) return;
      const day = dayOf(time);
      days.set(`${of.table}:${day}`, { table: of.table, dayMs: day });
    };
    for (const row of this.#content.rows) note(row, row.time);
    for (const rollup of rollupNames) for (const cell of this.cellsOf(rollup)) note(cell, cell.bucket);
    return [...days.values()];
  }

  /** Cells of a partition and day that differ from the raw rows, each with what must be added to it. */
  differencesOf(partition: number, { table, dayMs: day }: TableDay, rollup: string): readonly Cell[] {
    const wanted = new Map<string, Cell>();
    for (const row of this.#content.rows) {
      if (row.table !== table || row.log_partition !== partition || dayOf(row.time) !== day) continue;
      this.#add(wanted, rollup, row);
    }
    for (const [key, cell] of this.#content.rollups.get(rollup) ?? []) {
      if (cell.table !== table || cell.log_partition !== partition || dayOf(cell.bucket) !== day) continue;
      const known = wanted.get(key);
      wanted.set(key, {
        ...cell,
        rows: (known?.rows ?? 0) - cell.rows,
        batch_no: Math.max(cell.batch_no, known?.batch_no ?? 0),
      });
    }
    for (const [key, { rows }] of wanted) if (rows === 0) wanted.delete(key);
    return [...wanted].map(([key, cell]) => ({ ...cell, key }));
  }

  /** Adds the differences of a day to a rollup. @throws QueryEnded */
  async correct(partition: number, day: TableDay, rollup: string, fence: Fence): Promise<void> {
    await this.#run(partition, async (step) => {
      if (!this.#isInForce(partition, fence)) return;
      const differences = this.differencesOf(partition, day, rollup) as readonly (Cell & { key: string })[];
      await step();
      const cells = this.#content.rollups.get(rollup);
      for (const { key, ...more } of differences) {
        const cell = cells?.get(key);
        if (cell === undefined) cells?.set(key, more);
        else [cell.rows, cell.batch_no] = [cell.rows + more.rows, Math.max(cell.batch_no, more.batch_no)];
      }
      await step();
    });
  }

  /** By how much the rollups differ from the raw rows, summed over all cells. */
  get rollupDifference(): number {
    let difference = 0;
    for (const rollup of rollupNames) {
      const wanted = new Map<string, Cell>();
      for (const row of this.#content.rows) this.#add(wanted, rollup, row);
      const cells = this.#content.rollups.get(rollup) ?? new Map<string, Cell>();
      for (const [key, { rows }] of wanted) difference += Math.abs(rows - (cells.get(key)?.rows ?? 0));
      for (const [key, { rows }] of cells) if (!wanted.has(key)) difference += Math.abs(rows);
    }
    return difference;
  }

  /** Writes the token first, then the part: a crash between the two loses the part. */
  async #place(step: () => Promise<void>, into: string, token: string, put: () => void): Promise<void> {
    const tokens = this.#content.tokens.get(into);
    if (tokens?.has(token) === true) return;
    tokens?.add(token);
    try {
      await step();
    } catch (error) {
      this.hits.part_lost++;
      throw error;
    }
    put();
    await step();
  }

  #count(rollup: string, rows: readonly SimulatedRow[]): void {
    const cells = this.#content.rollups.get(rollup);
    if (cells !== undefined) for (const row of rows) this.#add(cells, rollup, row);
  }

  #add(cells: Map<string, Cell>, rollup: string, row: SimulatedRow): void {
    const { table, log_partition, month, batch_no, sign } = row;
    for (const { key, bucket } of cellsOf(rollup, row)) {
      const cell = cells.get(key);
      if (cell === undefined) cells.set(key, { table, month, log_partition, bucket, rows: sign, batch_no });
      else {
        cell.rows += sign;
        cell.batch_no = Math.max(cell.batch_no, batch_no);
      }
    }
  }

  #dieInStep(): void {
    this.crash();
    this.scheduler.after(this.scheduler.random.next() * restartMsMax, () => this.start());
  }

  async #run(partition: number, work: (step: () => Promise<void>) => Promise<void>): Promise<void> {
    const query: Running = { partition, isKilled: false };
    this.#running.add(query);
    const step = () =>
      new Promise<void>((done, fail) => {
        this.scheduler.after(this.scheduler.random.next() * this.stepMsMax, () => {
          if (this.diesInStep > 0 && this.scheduler.random.next() < this.diesInStep) this.#dieInStep();
          if (query.isKilled) fail(new QueryEnded());
          else done();
        });
      });
    try {
      await work(step);
    } finally {
      this.#running.delete(query);
    }
  }
}
