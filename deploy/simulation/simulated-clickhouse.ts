/**
 * The simulated ClickHouse: raw tables whose views feed rollups, a fence that inserts check, and queries that run for a while and can
 * be ended. An insert reaches the raw table first and then one rollup after the other. In each, the token is written down before the
 * part is in place; a death in between loses the part, and a repetition with the same token is dropped.
 */
import type { Fence } from '#ingest/raw-store.ts';
import { CallableServer } from './server-call.ts';

/** A row of a raw table, as far as anything here depends on it. */
export interface SimulatedRow {
  /** Number of the record. */
  readonly n: number;
  readonly table: string;
  /** Of ClickHouse, YYYYMM. */
  readonly month: string;
  readonly log_partition: number;
  readonly batch_no: number;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
  /** Epoch milliseconds. */
  readonly time: number;
}

interface Cell {
  readonly month: string;
  readonly log_partition: number;
  readonly bucket: number;
  rows: number;
  batch_no: number;
}

/** A query that changes what is stored. */
interface Running {
  readonly partition: number;
  isKilled: boolean;
}

/** The query was ended, or the server has died under it. */
export class QueryEnded extends Error {
  constructor() {
    super('The query was ended.');
    this.name = 'QueryEnded';
  }
}

/** An insert below the fence. */
export class Fenced extends Error {
  constructor() {
    super('The fence is above this batch.');
    this.name = 'Fenced';
  }
}

export const rollupNames: readonly string[] = ['by_link', 'by_dimension'];
const linksMax = 3;
const dayMs = 86_400_000;
const quarterMs = 900_000;
const restartMsMax = 300;

/** The cells of a rollup that a row is counted in. */
function cellsOf(rollup: string, row: SimulatedRow): { key: string; bucket: number }[] {
  const day = Math.floor(row.time / dayMs) * dayMs;
  const quarter = Math.floor(row.time / quarterMs) * quarterMs;
  const buckets = rollup === 'by_link' ? [day] : [day, quarter];
  return buckets.map((bucket, at) => ({
    key: rollup === 'by_link' ? `${row.n % linksMax}:${bucket}` : `${at}:${bucket}`,
    bucket,
  }));
}

interface Content {
  rows: SimulatedRow[];
  /** By rollup, by cell. Each cell belongs to one partition of the log. */
  rollups: Map<string, Map<string, Cell>>;
  tokens: Set<string>;
  fences: Map<number, Fence>;
}

function noContent(): Content {
  return {
    rows: [],
    rollups: new Map(rollupNames.map((name) => [name, new Map()])),
    tokens: new Set(),
    fences: new Map(),
  };
}

function copyOf({ rows, rollups, tokens, fences }: Content): Content {
  const copied = [...rollups].map(([name, cells]): [string, Map<string, Cell>] => [
    name,
    new Map([...cells].map(([key, cell]) => [key, { ...cell }])),
  ]);
  return { rows: [...rows], rollups: new Map(copied), tokens: new Set(tokens), fences: new Map(fences) };
}

export class SimulatedClickHouse extends CallableServer {
  readonly hits = { crashed: 0, part_lost: 0, killed_queries: 0, fenced: 0, restored: 0 };
  /** Most milliseconds between two steps of an insert. */
  stepMsMax = 1;
  /** Chance that the server dies at a step of an insert. */
  diesInStep = 0;
  #content = noContent();
  #backup = noContent();
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

  backUp(): void {
    this.#backup = copyOf(this.#content);
  }

  restore(): void {
    this.crash();
    this.hits.restored++;
    this.#content = copyOf(this.#backup);
  }

  fenceOf(partition: number): Fence {
    return this.#content.fences.get(partition) ?? { batchNoMin: 0, owner: '' };
  }

  setFence(partition: number, fence: Fence): void {
    this.#content.fences.set(partition, fence);
  }

  /** How many queries of a partition still run. */
  running(partition: number): number {
    return [...this.#running].filter((query) => query.partition === partition).length;
  }

  /** Asks the queries of a partition to end; each does at its next step. */
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
      await this.#place(step, `raw:${token}`, () => this.#content.rows.push(...rows));
      for (const rollup of rollupNames) {
        await this.#place(step, `${rollup}:${token}`, () => this.#count(rollup, rows));
      }
      await step();
    });
  }

  /** Counts stored rows in a rollup, as its view would have. @throws QueryEnded */
  async fillIn(partition: number, rollup: string, isWanted: (row: SimulatedRow) => boolean): Promise<void> {
    await this.#run(partition, async (step) => {
      const rows = this.#content.rows.filter(isWanted);
      await step();
      this.#count(rollup, rows);
      await step();
    });
  }

  /** What rollups have too much or too little of, over all cells. */
  get rollupDifference(): number {
    let difference = 0;
    for (const rollup of rollupNames) {
      const wanted = new Map<string, number>();
      for (const row of this.#content.rows) {
        for (const { key } of cellsOf(rollup, row)) {
          const cell = `${key}:${row.log_partition}`;
          wanted.set(cell, (wanted.get(cell) ?? 0) + 1);
        }
      }
      const cells = this.#content.rollups.get(rollup) ?? new Map<string, Cell>();
      for (const key of new Set([...wanted.keys(), ...cells.keys()])) {
        difference += Math.abs((wanted.get(key) ?? 0) - (cells.get(key)?.rows ?? 0));
      }
    }
    return difference;
  }

  /** The token first, then the part: between the two, a death loses the part. */
  async #place(step: () => Promise<void>, token: string, put: () => void): Promise<void> {
    const { tokens } = this.#content;
    if (tokens.has(token)) return;
    tokens.add(token);
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
    for (const row of rows) {
      for (const { key, bucket } of cellsOf(rollup, row)) {
        const { log_partition, month, batch_no } = row;
        const name = `${key}:${log_partition}`;
        const cell = cells?.get(name) ?? { month, log_partition, bucket, rows: 0, batch_no: 0 };
        cell.rows++;
        cell.batch_no = Math.max(cell.batch_no, batch_no);
        cells?.set(name, cell);
      }
    }
  }

  #dieInStep(): void {
    this.crash();
    this.scheduler.after(this.scheduler.dice.next() * restartMsMax, () => this.start());
  }

  async #run(partition: number, work: (step: () => Promise<void>) => Promise<void>): Promise<void> {
    const query: Running = { partition, isKilled: false };
    this.#running.add(query);
    const step = () =>
      new Promise<void>((done, fail) => {
        this.scheduler.after(this.scheduler.dice.next() * this.stepMsMax, () => {
          if (this.diesInStep > 0 && this.scheduler.dice.next() < this.diesInStep) this.#dieInStep();
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
