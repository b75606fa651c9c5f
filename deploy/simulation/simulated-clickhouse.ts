/**
 * The simulated ClickHouse: raw tables with views that feed rollups, a fence that inserts check, and queries that run
 * for a while and can be cancelled. An insert reaches the raw table first and then one rollup after another. In each,
 * the token is written before the part is in place: a crash in between loses the part, and a retry with the same token
 * is dropped.
 *
 * It can be restored from a backup, in which each table dates from a different moment. Rows that are older than the
 * retention by its clock are gone at once.
 */
import { DAY_MS } from '#common/durations.ts';
import type { Fence, TableDay } from '#ingest/raw-store.ts';
import {
  ageMaxOf,
  type Cell,
  cellsOf,
  copyOf,
  copyOver,
  dayOf,
  Fenced,
  noContent,
  QueryEnded,
  Refused,
  rawTables,
  rollupNames,
  rollupsOf,
  type SimulatedRow,
} from './clickhouse-content.ts';
import type { Scheduler } from './scheduler.ts';
import { CallableServer } from './server-call.ts';
import { FenceFiles, type FenceTables, fencesName } from './simulated-fences.ts';

/** A query that changes stored data. */
interface Running {
  readonly partition: number;
  isKilled: boolean;
}

const restartMsMax = 300;
const repairLateMsMax = 20_000;
/** Maximum time between the copies of two tables in a backup. */
const backupMsMax = 3_000;

export class SimulatedClickHouse extends CallableServer {
  readonly hits = {
    refused: 0,
    power_lost: 0,
    crashed: 0,
    part_lost: 0,
    killed_queries: 0,
    fenced: 0,
    late_repairs: 0,
    restored: 0,
    rows_lost_in_restore: 0,
    rows_expired: 0,
    rows_expired_at_once: 0,
  };
  /** The error of its clock in milliseconds. */
  clockOffsetMs = 0;
  /** Rows that were stored, and have expired since. */
  readonly expired: SimulatedRow[] = [];
  readonly fenceFiles = new FenceFiles();
  /** Probability that a step of an insert is refused. */
  refuses = 0;
  /** Maximum milliseconds between two steps of an insert. */
  stepMsMax = 1;
  /** Probability that the server dies at a step of an insert. */
  diesInStep = 0;
  /** Probability that a statement which adds to a rollup arrives long after its client has lost the connection. */
  repairsLate = 0;
  #content = noContent();
  #backup = { content: noContent(), begunAt: 0 };
  #running = new Set<Running>();
  /** The earliest time, by its clock, at which one of its rows expires. */
  #expiresAt = 0;
  readonly #epochMs: number;

  constructor(scheduler: Scheduler, epochMs: number) {
    super(scheduler);
    this.#epochMs = epochMs;
  }

  get now(): number {
    return Math.floor(this.#epochMs + this.scheduler.now + this.clockOffsetMs);
  }

  get rows(): readonly SimulatedRow[] {
    this.#expire();
    return this.#content.rows;
  }

  /** Loses a row without a trace. */
  lose(row: SimulatedRow): void {
    this.#content.rows = this.#content.rows.filter((one) => one !== row);
  }

  cellsOf(rollup: string): readonly Cell[] {
    this.#expire();
    return [...(this.#content.rollups.get(rollup)?.values() ?? [])];
  }

  #expiryOf({ table, time }: Pick<SimulatedRow, 'table' | 'time'>): number {
    return time + (ageMaxOf.get(table) ?? Number.POSITIVE_INFINITY);
  }

  #expire(): void {
    const { now } = this;
    if (now < this.#expiresAt) return;
    const content = this.#content;
    this.#expiresAt = Number.POSITIVE_INFINITY;
    const note = (expiry: number) => {
      this.#expiresAt = Math.min(this.#expiresAt, expiry);
    };
    const kept = content.rows.filter((row) => this.#expiryOf(row) > now);
    for (const row of kept) note(this.#expiryOf(row));
    if (kept.length < content.rows.length) {
      this.hits.rows_expired += content.rows.length - kept.length;
      for (const row of content.rows) if (this.#expiryOf(row) <= now) this.expired.push(row);
      content.rows = kept;
    }
    for (const cells of content.rollups.values()) {
      for (const [key, { table, bucket: time }] of cells) {
        if (this.#expiryOf({ table, time }) <= now) cells.delete(key);
        else note(this.#expiryOf({ table, time }));
      }
    }
  }

  /** Adds rows; those that have expired are not there even once. */
  #keep(rows: readonly SimulatedRow[]): void {
    for (const row of rows) {
      const expiry = this.#expiryOf(row);
      if (expiry <= this.now) this.hits.rows_expired_at_once++;
      else this.#content.rows.push(row);
      this.#expiresAt = Math.min(this.#expiresAt, expiry);
    }
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
    copy.fenceTables = this.#content.fenceTables;
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
    const lost = this.rows.filter((row) => !kept.has(row));
    this.#content = copyOf(this.#backup.content);
    this.#expiresAt = 0;
    this.fenceFiles.synced = this.#content.fenceTables;
    this.hits.rows_lost_in_restore += lost.length;
    return { lost, begunAt: this.#backup.begunAt };
  }

  fenceOf(partition: number): Fence {
    return this.#content.fenceTables.get(fencesName)?.get(partition) ?? { batchNoMin: 0, owner: '' };
  }

  /** Partitions with a fence. */
  get partitions(): readonly number[] {
    return [...(this.#content.fenceTables.get(fencesName)?.keys() ?? [])];
  }

  get fenceTables(): FenceTables {
    return this.#content.fenceTables;
  }

  setFenceTables(tables: FenceTables): void {
    this.#content.fenceTables = tables;
  }

  /** Dies, and loses what was not synced: files of fences, and those that recognize repeated inserts. */
  losePower(): void {
    this.crash();
    const { random } = this.scheduler;
    this.#content.fenceTables = this.fenceFiles.afterPowerLoss(this.#content.fenceTables, random);
    if (random.next() < 0.5) this.#content.tokens = noContent().tokens;
    this.hits.power_lost++;
  }

  /** A moment of a statement. */
  soon(): Promise<void> {
    return new Promise((over) => this.scheduler.after(this.scheduler.random.next() * this.stepMsMax, over));
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
      await this.#place(step, table, token, () => this.#keep(rows));
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
      const rows = this.rows.filter(isWanted);
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
    for (const row of this.rows) note(row, row.time);
    for (const rollup of rollupNames) for (const cell of this.cellsOf(rollup)) note(cell, cell.bucket);
    return [...days.values()];
  }

  /** Cells of a partition and day that differ from the raw rows, each with what must be added to it. */
  differencesOf(partition: number, { table, dayMs: day }: TableDay, rollup: string): readonly Cell[] {
    const wanted = new Map<string, Cell>();
    for (const row of this.rows) {
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
    // Of a day that is expiring, the cells are gone before the last rows.
    const from = this.now - (ageMaxOf.get('clicks') ?? 0) + DAY_MS;
    for (const rollup of rollupNames) {
      const wanted = new Map<string, Cell>();
      for (const row of this.rows) if (dayOf(row.time) > from) this.#add(wanted, rollup, row);
      const cells = this.#content.rollups.get(rollup) ?? new Map<string, Cell>();
      for (const [key, { rows }] of wanted) difference += Math.abs(rows - (cells.get(key)?.rows ?? 0));
      for (const [key, { rows, bucket }] of cells)
        if (!wanted.has(key) && dayOf(bucket) > from) difference += Math.abs(rows);
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
      if (this.#expiryOf({ table, time: bucket }) <= this.now) continue;
      this.#expiresAt = Math.min(this.#expiresAt, this.#expiryOf({ table, time: bucket }));
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
          else if (this.refuses > 0 && this.scheduler.random.next() < this.refuses) {
            this.hits.refused++;
            fail(new Refused());
          } else done();
        });
      });
    try {
      await work(step);
    } finally {
      this.#running.delete(query);
    }
  }
}
