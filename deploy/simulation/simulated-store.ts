/**
 * Ingest's ClickHouse store on the simulated server: the same queries in the same order as the real store sends them.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { tableOf } from '#clickhouse/rollups.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import { DAY_MS } from '#common/durations.ts';
import { type FrameRange, FrameSet, type LaneMarks } from '#common/log/marks.ts';
import { type RecordKind, recordKinds } from '#common/log/record.ts';
import { sleep } from '#common/time.ts';
import type { BatchPart, FrameRows, LedgerLine } from '#ingest/checkpoints.ts';
import { ClickHouseStore } from '#ingest/clickhouse-store.ts';
import type {
  Fence,
  FrameSpan,
  InsertOutcome,
  NewestBatch,
  RawStore,
  SentPart,
  StoredFrames,
  StoredPlace,
  TableDay,
} from '#ingest/raw-store.ts';
import { Fenced, Refused, rollupNames, rollupsOf, type SimulatedRow } from './clickhouse-content.ts';
import type { Machine } from './machine.ts';
import type { Program } from './program.ts';
import { type Caller, call } from './server-call.ts';
import type { SimulatedClickHouse } from './simulated-clickhouse.ts';
import { fenceClientOf } from './simulated-fences.ts';

const memoryLimitExceeded = 241;
const timeoutMs = 60_000;
const endPollMs = 20;
const endPatienceMs = 10_000;

export class SimulatedStore implements RawStore {
  readonly #server: SimulatedClickHouse;
  readonly #caller: Caller;
  readonly #fences: ClickHouseStore;

  constructor(server: SimulatedClickHouse, program: Program, machine: Machine) {
    this.#server = server;
    const unavailable = (why: string) => new ClickHouseFailure('unavailable', 0, why, undefined);
    this.#caller = { program, link: machine.link, timeoutMs, unavailable };
    this.#fences = new ClickHouseStore(
      fenceClientOf(server, (execute) => this.#ask(execute)),
      program.time,
    );
  }

  async insert(batch: BatchName, part: SentPart): Promise<InsertOutcome> {
    const rows = JSON.parse(Buffer.from(part.body).toString()) as SimulatedRow[];
    const token = `${batch.partition}:${batch.batch_no}:${part.table}:${part.partition}`;
    try {
      await this.#ask(() => this.#server.insert(batch.partition, rows, token));
      return { kind: 'written' };
    } catch (error) {
      if (error instanceof Fenced) return { kind: 'fenced' };
      if (error instanceof ClickHouseFailure && error.kind === 'refused')
        return { kind: 'refused', isAboutData: false, code: error.code, message: error.message };
      return { kind: 'unknown', code: 0, message: String(error) };
    }
  }

  /** The product's statements, one after the other. */
  fence(partition: number, batchNoMin: number, owner: string, isNewOwner: boolean): Promise<Fence> {
    return this.#fences.fence(partition, batchNoMin, owner, isNewOwner);
  }

  partitions(): Promise<readonly number[]> {
    return this.#ask(() => this.#server.partitions);
  }

  rowsOf(batch: BatchName, part: BatchPart): Promise<number> {
    return this.#ask(() => this.#server.rows.filter((row) => isOfPart(row, batch, part)).length);
  }

  rollupsOf(table: string): readonly string[] {
    return rollupsOf(table);
  }

  async rollupsWithout({ partition, batch_no }: BatchName, part: BatchPart): Promise<readonly string[]> {
    const without: string[] = [];
    for (const rollup of rollupsOf(part.table)) {
      const isThere = await this.#ask(() =>
        this.#server
          .cellsOf(rollup)
          .some(
            (cell) =>
              cell.table === part.table &&
              cell.log_partition === partition &&
              cell.month === part.partition &&
              cell.batch_no === batch_no,
          ),
      );
      if (!isThere) without.push(rollup);
    }
    return without;
  }

  async fillIn(batch: BatchName, part: BatchPart, rollup: string, fence: Fence): Promise<void> {
    await this.#repair(() => this.#server.fillIn(batch.partition, rollup, fence, (row) => isOfPart(row, batch, part)));
  }

  async newestBatch(partition: number, batchNo: number): Promise<NewestBatch> {
    const raw = await this.#ask(() => newestOf(this.#server.rows, partition, batchNo));
    const rolled = await this.#ask(() =>
      newestOf(
        rollupNames.flatMap((name) => this.#server.cellsOf(name)),
        partition,
        batchNo,
      ),
    );
    const parts = raw === 0 ? [] : await this.#ask(() => this.#partsOf(partition, raw));
    return { raw, rolled, parts };
  }

  framesAbove(partition: number, batchNo: number, producerId?: string): Promise<readonly StoredFrames[]> {
    return this.#ask(() => {
      const lanes = new Map<string, { producer_id: string; kind: RecordKind; frames: Set<number> }>();
      for (const row of this.#server.rows) {
        if (row.log_partition !== partition || row.batch_no <= batchNo || row.isLearned) continue;
        if (producerId !== undefined && row.producer_id !== producerId) continue;
        const key = row.producer_id + row.table;
        const lane = lanes.get(key) ?? { producer_id: row.producer_id, kind: kindOf(row), frames: new Set() };
        lanes.set(key, lane);
        lane.frames.add(row.frame_no);
      }
      return [...lanes.values()].map(({ producer_id, kind, frames }) => ({
        producer_id,
        kind,
        ranges: [...frames].sort((one, other) => one - other).map((no): FrameRange => [no, no]),
      }));
    });
  }

  placesOf(partition: number, batchNo: number, frames: readonly FrameSpan[]): Promise<readonly StoredPlace[]> {
    return this.#ask(() =>
      this.#server.rows
        .filter((row) => row.log_partition === partition && row.batch_no > batchNo && !row.isLearned)
        .filter((row) => frames.some((span) => isWithin(row, span)))
        .map((row) => ({ kind: kindOf(row), producer_id: row.producer_id, frame_no: row.frame_no, idx: row.idx })),
    );
  }

  deleteUnnumbered(): Promise<void> {
    return this.#ask(() => undefined);
  }

  rowsAbove(partition: number, batchNo: number, committed: readonly LaneMarks[]): Promise<readonly LedgerLine[]> {
    const sets = new Map(committed.map((lane) => [lane.producer_id + lane.kind, new FrameSet(lane.mark, lane.ahead)]));
    const isAgain = (row: SimulatedRow) => sets.get(row.producer_id + kindOf(row))?.has(row.frame_no) === true;
    return this.#ask(() =>
      linesOf(
        this.#ownRows(partition).filter(({ batch_no }) => batch_no > batchNo),
        isAgain,
      ),
    );
  }

  rowsByFrame(partition: number, [from, to]: FrameRange, frames: readonly FrameSpan[]): Promise<readonly FrameRows[]> {
    return this.#ask(() => {
      const byFrame = new Map<string, SimulatedRow[]>();
      for (const row of this.#ownRows(partition)) {
        const { producer_id, frame_no, batch_no } = row;
        if (batch_no < from || batch_no > to || !frames.some((span) => isWithin(row, span))) continue;
        const key = `${kindOf(row)}:${producer_id}:${frame_no}`;
        byFrame.set(key, [...(byFrame.get(key) ?? []), row]);
      }
      return [...byFrame.values()].flatMap((rows) => {
        const [first] = rows;
        if (first === undefined) return [];
        const of = { producer_id: first.producer_id, kind: kindOf(first), frame_no: first.frame_no };
        return linesOf(rows).map((line) => ({ ...line, ...of }));
      });
    });
  }

  #ownRows(partition: number): SimulatedRow[] {
    return this.#server.rows.filter((row) => row.log_partition === partition && !row.isLearned);
  }

  daysAbove(partition: number, batchNo: number): Promise<readonly TableDay[]> {
    return this.#ask(() => this.#server.daysAbove(partition, batchNo));
  }

  async correct(partition: number, day: TableDay, fence: Fence): Promise<number> {
    await this.#endInserts(partition);
    let cells = 0;
    for (const rollup of rollupNames) {
      const wrong = await this.#ask(() => this.#server.differencesOf(partition, day, rollup).length);
      if (wrong === 0) continue;
      cells += wrong;
      await this.#repair(() => this.#server.correct(partition, day, rollup, fence));
    }
    return cells;
  }

  async #endInserts(partition: number): Promise<void> {
    const { time } = this.#caller.program;
    const deadline = time.elapsed() + endPatienceMs;
    for (let looks = 0; ; looks++) {
      if ((await this.#ask(() => this.#server.running(partition))) === 0) return;
      if (time.elapsed() > deadline)
        throw new ClickHouseFailure('unavailable', 0, `an insert of partition ${partition} does not end`, undefined);
      if (looks === 0) await this.#ask(() => this.#server.kill(partition));
      await sleep(time, endPollMs);
    }
  }

  #partsOf(partition: number, batchNo: number): BatchPart[] {
    const parts = new Map<string, BatchPart>();
    for (const row of this.#server.rows) {
      if (row.log_partition !== partition || row.batch_no !== batchNo) continue;
      const known = parts.get(row.table + row.month);
      parts.set(row.table + row.month, {
        table: row.table,
        partition: row.month,
        rows: (known?.rows ?? 0) + 1,
        time_from: Math.min(known?.time_from ?? row.time, row.time),
        time_to: Math.max(known?.time_to ?? row.time, row.time),
      });
    }
    return [...parts.values()];
  }

  async #repair(carryOut: () => Promise<void>): Promise<void> {
    await this.#ask(() => {
      if (this.#server.isRepairLate(carryOut)) throw this.#caller.unavailable('the connection was lost');
      return carryOut();
    });
  }

  async #ask<T>(carryOut: () => T | Promise<T>): Promise<T> {
    try {
      return await call(this.#caller, this.#server, carryOut);
    } catch (error) {
      if (error instanceof ClickHouseFailure || error instanceof Fenced) throw error;
      if (error instanceof Refused)
        throw new ClickHouseFailure('refused', memoryLimitExceeded, error.message, undefined);
      throw this.#caller.unavailable(String(error));
    }
  }
}

function kindOf({ table }: SimulatedRow): RecordKind {
  const kind = recordKinds.find((one) => tableOf(one) === table);
  if (kind === undefined) throw new Error(`${table} is not a table of records`);
  return kind;
}

function isWithin(row: SimulatedRow, { kind, producer_id, from, to }: FrameSpan): boolean {
  return kind === kindOf(row) && producer_id === row.producer_id && row.frame_no >= from && row.frame_no <= to;
}

/** Counts rows as the ledger does. */
function linesOf(rows: readonly SimulatedRow[], isAgain = (_row: SimulatedRow) => false): LedgerLine[] {
  const lines = new Map<string, LedgerLine>();
  for (const row of rows) {
    const { table, month, batch_no: no, time } = row;
    const key = `${table}:${month}:${Math.floor(no / DAY_MS)}`;
    const known = lines.get(key);
    lines.set(key, {
      table,
      partition: month,
      rows: (known?.rows ?? 0) + 1,
      rows_again: (known?.rows_again ?? 0) + (isAgain(row) ? 1 : 0),
      time_from: Math.min(known?.time_from ?? time, time),
      time_to: Math.max(known?.time_to ?? time, time),
      batch_from: Math.min(known?.batch_from ?? no, no),
      batch_to: Math.max(known?.batch_to ?? no, no),
    });
  }
  return [...lines.values()];
}

function isOfPart(row: SimulatedRow, batch: BatchName, part: BatchPart): boolean {
  return (
    row.log_partition === batch.partition &&
    row.batch_no === batch.batch_no &&
    row.table === part.table &&
    row.month === part.partition
  );
}

function newestOf(
  rows: readonly { readonly log_partition: number; readonly batch_no: number }[],
  partition: number,
  above: number,
): number {
  return rows.reduce(
    (newest, row) =>
      row.log_partition === partition && row.batch_no > Math.max(above, newest) ? row.batch_no : newest,
    0,
  );
}
