/** The raw tables and rollups in ClickHouse: all SQL of the sink. */
import { randomUUID } from 'node:crypto';
import { type ClickHouse, ClickHouseFailure, identifier, type Params } from '#clickhouse/client.ts';
import { columnsOf, kinds, type Rollup, rollups } from '#clickhouse/rollups.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import { DAY_MS } from '#common/durations.ts';
import type { FrameRange, LaneMarks } from '#common/log/marks.ts';
import type { RecordKind } from '#common/log/record.ts';
import { sleep, type Time } from '#common/time.ts';
import type { BatchPart, FrameRows, LedgerLine } from './checkpoints.ts';
import { FenceCompaction } from './fence-compaction.ts';
import {
  FENCE_REACH,
  type Fence,
  type FrameSpan,
  type InsertOutcome,
  type NewestBatch,
  type RawStore,
  type SentPart,
  type StoredFrames,
  type StoredPlace,
  type TableDay,
} from './raw-store.ts';
import { isAboutData } from './refused-rows.ts';
import { inDay, inTime, rollupDifferences } from './rollup-differences.ts';

const violatedConstraint = 469;
const endPollMs = 20;
/** Of two compactions in a row, the second finds a small table and does nothing. */
const raisesMax = 2;
/**
 * How long to wait for killed inserts to end. After that, ClickHouse counts as unavailable, and the step is repeated.
 */
const endPatienceMs = 10_000;

interface RawTable {
  readonly name: string;
  /** SQL expression for the kind of record from which a row was made. */
  readonly kind: string;
  /** SQL condition for rows that came from a frame of their own; absent if all did. */
  readonly own?: string;
}
const rawTables: readonly RawTable[] = [
  { name: 'clicks', kind: "'click'" },
  { name: 'installs', kind: "'install'" },
  { name: 'events', kind: "'event'", own: 'NOT is_learned' },
  { name: 'matches', kind: "'match'" },
  { name: 'dead_letters', kind: 'kind' },
];

/** Settings that complete a rollup with one block, so that it contains a batch completely or not at all. */
const oneBlock = {
  async_insert: 0,
  insert_deduplicate: 0,
  max_insert_threads: 1,
  max_threads: 1,
  max_insert_block_size: 10_000_000,
  min_insert_block_size_rows: 10_000_000,
  min_insert_block_size_bytes: 0,
};

const ofBatch = 'log_partition = {partition:UInt16} AND batch_no = {batch_no:UInt64}';
const spans = `toUnixTimestamp64Milli(min(time)) AS time_from, toUnixTimestamp64Milli(max(time)) AS time_to,
  min(batch_no) AS batch_from, max(batch_no) AS batch_to`;
const ofPart = `_partition_id = {month:String} AND ${ofBatch}`;

export class ClickHouseStore implements RawStore {
  readonly #clickhouse: ClickHouse;
  readonly #compaction: FenceCompaction;
  readonly #time: Time;

  constructor(clickhouse: ClickHouse, time: Time) {
    this.#clickhouse = clickhouse;
    this.#compaction = new FenceCompaction(clickhouse);
    this.#time = time;
  }

  async insert(batch: BatchName, part: SentPart): Promise<InsertOutcome> {
    const outcome = await this.#clickhouse.insert(part.table, part.body, {
      token: tokenOf(batch, part),
      queryId: this.#queryId(batch.partition),
      format: 'RowBinary',
      columns: part.columns,
    });
    if (outcome.kind === 'written') return { kind: 'written' };
    const { code, message } = outcome;
    if (code === violatedConstraint && message.includes('`fenced`')) return { kind: 'fenced' };
    if (outcome.kind === 'unavailable') return { kind: 'unknown', code, message };
    return { kind: 'refused', isAboutData: isAboutData(code), code, message };
  }

  async fence(partition: number, batchNoMin: number, owner: string, isNewOwner: boolean): Promise<Fence> {
    const inForce = (column: string) => `joinGet('fences', '${column}', toUInt16({partition:UInt16}))`;
    const [low, own] = [`${inForce('batch_no_min')} < {min:UInt64}`, `${inForce('owner')} = {owner:String}`];
    const above = `${inForce('batch_no_min')} + if(${own}, 0, {reach:UInt64})`;
    const read = async (): Promise<Fence> => {
      const sql = `SELECT ${inForce('batch_no_min')} AS min, ${inForce('owner')} AS owner`;
      const [row] = await this.#clickhouse.query<{ min: number; owner: string }>(sql, { partition });
      return { batchNoMin: Number(row?.min), owner: row?.owner ?? '' };
    };
    for (let tries = 1; ; tries++) {
      await this.#clickhouse.command(
        `INSERT INTO fences SELECT {partition:UInt16}, greatest({min:UInt64}, ${above}), {owner:String}
         WHERE ${isNewOwner ? `NOT (${own}) OR ${low}` : `${own} AND ${low}`}`,
        { partition, min: batchNoMin, owner, reach: FENCE_REACH },
        { async_insert: 0 },
      );
      await this.#compaction.end();
      const fence = await read();
      if (fence.owner === owner && fence.batchNoMin >= batchNoMin) break;
      // If a compaction replaced the table in between, the row is in the old one.
      if (tries < raisesMax) continue;
      if (fence.owner !== owner) break;
      throw new ClickHouseFailure('unavailable', 0, `the fence of partition ${partition} does not rise`, undefined);
    }
    await this.#compaction.sync();
    await this.#endInserts(partition);
    const fence = await read();
    if (fence.owner === owner) await this.#compaction.run();
    return fence;
  }

  async partitions(): Promise<readonly number[]> {
    const rows = await this.#clickhouse.query<{ log_partition: number }>('SELECT log_partition FROM fences');
    return rows.map(({ log_partition }) => log_partition);
  }

  async rowsOf(batch: BatchName, part: BatchPart): Promise<number> {
    const [row] = await this.#clickhouse.query<{ rows: number }>(
      `SELECT count() AS rows FROM ${identifier(part.table)} WHERE ${ofPart} AND ${inTime}`,
      paramsOf(batch, part),
    );
    return Number(row?.rows);
  }

  rollupsOf(table: string): readonly string[] {
    return rollupsOf(table).map((rollup) => rollup.table);
  }

  async rollupsWithout(batch: BatchName, part: BatchPart): Promise<readonly string[]> {
    const without: string[] = [];
    for (const { table } of rollupsOf(part.table)) {
      const rows = await this.#clickhouse.query(
        `SELECT 1 FROM ${identifier(table)} WHERE ${ofPart} AND bucket >= fromUnixTimestamp64Milli({day_from:Int64})
           AND bucket < fromUnixTimestamp64Milli({to:Int64}) LIMIT 1`,
        paramsOf(batch, part),
      );
      if (rows.length === 0) without.push(table);
    }
    return without;
  }

  async fillIn(batch: BatchName, part: BatchPart, table: string, fence: Fence): Promise<void> {
    const rollup = rollupsOf(part.table).find((one) => one.table === table);
    if (rollup === undefined) throw new Error(`${table} is not a rollup of ${part.table}.`);
    await this.#add(batch.partition, rollup, rollup.select(`${ofPart} AND ${inTime}`), paramsOf(batch, part), fence);
  }

  /** Adds cells in one block, unless another fence is in force. */
  async #add(partition: number, rollup: Rollup, cells: string, params: Params, fence: Fence): Promise<void> {
    const columns = columnsOf(rollup).map(identifier).join(', ');
    await this.#clickhouse.command(
      `INSERT INTO ${identifier(rollup.table)} (${columns}) SELECT ${columns} FROM (${cells})
       WHERE joinGet('fences', 'owner', toUInt16({partition:UInt16})) = {owner:String}
         AND joinGet('fences', 'batch_no_min', toUInt16({partition:UInt16})) = {fence:UInt64}`,
      { ...params, owner: fence.owner, fence: fence.batchNoMin },
      oneBlock,
      this.#queryId(partition),
    );
  }

  async newestBatch(partition: number, batchNo: number): Promise<NewestBatch> {
    const above = `log_partition = {partition:UInt16} AND batch_no > {batch_no:UInt64}`;
    const params = { partition, batch_no: batchNo };
    const maxOf = async (names: readonly string[]) => {
      const selects = names.map((name) => `SELECT max(batch_no) AS newest FROM ${identifier(name)} WHERE ${above}`);
      const [row] = await this.#clickhouse.query<{ newest: number }>(
        `SELECT max(newest) AS newest FROM (${selects.join(' UNION ALL ')})`,
        params,
      );
      return Number(row?.newest);
    };
    const raw = await maxOf(rawTables.map(({ name }) => name));
    const rolled = await maxOf(rollups.map(({ table }) => table));
    const parts: BatchPart[] = [];
    for (const { name } of raw === 0 ? [] : rawTables) {
      const months = await this.#clickhouse.query<Omit<BatchPart, 'table'>>(
        `SELECT _partition_id AS partition, count() AS rows, toUnixTimestamp64Milli(min(time)) AS time_from,
                toUnixTimestamp64Milli(max(time)) AS time_to FROM ${identifier(name)} WHERE ${ofBatch} GROUP BY partition`,
        { partition, batch_no: raw },
      );
      parts.push(...months.map((month) => ({ table: name, ...month })));
    }
    return { raw, rolled, parts };
  }

  async framesAbove(partition: number, batchNo: number, producerId?: string): Promise<readonly StoredFrames[]> {
    const lanes = new Map<string, { producer_id: string; kind: RecordKind; ranges: [from: number, to: number][] }>();
    const selects = rawTables.map(
      ({ name, kind, own = '1' }) => `SELECT producer_id, ${kind} AS kind, frame_no FROM ${name}
        WHERE ${own} AND log_partition = {partition:UInt16} AND batch_no > {batch_no:UInt64}
        ${producerId === undefined ? '' : 'AND producer_id = {producer_id:String}'}`,
    );
    const lots = this.#clickhouse.stream<{ producer_id: string; kind: RecordKind; frame_no: number }>(
      `SELECT DISTINCT producer_id, kind, frame_no FROM (${selects.join(' UNION ALL ')}) ORDER BY producer_id, kind, frame_no`,
      { partition, batch_no: batchNo, ...(producerId === undefined ? {} : { producer_id: producerId }) },
    );
    for await (const lot of lots) {
      for (const { producer_id, kind, frame_no } of lot) {
        const key = `${producer_id}:${kind}`;
        const lane = lanes.get(key) ?? { producer_id, kind, ranges: [] };
        lanes.set(key, lane);
        const last = lane.ranges.at(-1);
        if (last?.[1] === frame_no - 1) last[1] = frame_no;
        else lane.ranges.push([frame_no, frame_no]);
      }
    }
    return [...lanes.values()];
  }

  async rowsAbove(partition: number, batchNo: number, committed: readonly LaneMarks[]): Promise<readonly LedgerLine[]> {
    const selects = rawTables.map(({ name, kind, own = '1' }) => {
      const mark = `transform(concat(producer_id, ':', toString(${kind})), {lanes:Array(String)}, {marks:Array(UInt64)}, toUInt64(0))`;
      return `SELECT '${name}' AS \`table\`, _partition_id AS partition, count() AS rows,
          countIf(frame_no <= ${mark} OR ${inSpans(kind)}) AS rows_again, ${spans} FROM ${name}
        WHERE ${own} AND log_partition = {partition:UInt16} AND batch_no > {batch_no:UInt64}
        GROUP BY partition, intDiv(batch_no, ${DAY_MS})`;
    });
    const ahead = committed.flatMap(({ producer_id, kind, ahead: ranges }) =>
      ranges.map(([from, to]): FrameSpan => ({ producer_id, kind, from, to })),
    );
    return await this.#clickhouse.query<LedgerLine>(selects.join(' UNION ALL '), {
      ...{ partition, batch_no: batchNo, ...paramsOfSpans(ahead) },
      // An empty list has no type.
      lanes: ['', ...committed.map(({ producer_id, kind }) => `${producer_id}:${kind}`)],
      marks: [0, ...committed.map(({ mark }) => mark)],
    });
  }

  async rowsByFrame(
    partition: number,
    [from, to]: FrameRange,
    frames: readonly FrameSpan[],
  ): Promise<readonly FrameRows[]> {
    if (frames.length === 0) return [];
    const selects = rawTables.map(
      ({
        name,
        kind,
        own = '1',
      }) => `SELECT '${name}' AS \`table\`, _partition_id AS partition, ${kind} AS kind, producer_id, frame_no,
          count() AS rows, 0 AS rows_again, ${spans} FROM ${name}
        WHERE ${own} AND log_partition = {partition:UInt16} AND batch_no BETWEEN {from:UInt64} AND {to:UInt64} AND ${inSpans(kind)}
        GROUP BY partition, kind, producer_id, frame_no, intDiv(batch_no, ${DAY_MS})`,
    );
    const params = { partition, from, to, ...paramsOfSpans(frames) };
    return await this.#clickhouse.query<FrameRows>(selects.join(' UNION ALL '), params);
  }

  async deleteUnnumbered(batchId: string, part: BatchPart): Promise<void> {
    await this.#clickhouse.command(
      `ALTER TABLE ${identifier(part.table)} DELETE IN PARTITION ID '${part.partition.replaceAll(/\D/g, '')}'
       WHERE batch_no = 0 AND batch_id = {batch_id:String}`,
      { batch_id: batchId },
      { mutations_sync: 2 },
    );
  }

  async daysAbove(partition: number, batchNo: number): Promise<readonly TableDay[]> {
    const days: TableDay[] = [];
    for (const table of kinds) {
      const of = (name: string, time: string) =>
        `SELECT toStartOfDay(toDateTime(${time}, 'UTC'), 'UTC') AS day FROM ${name}
         WHERE log_partition = {partition:UInt16} AND batch_no > {batch_no:UInt64} GROUP BY day`;
      const found = await this.#clickhouse.query<{ day_s: number }>(
        `SELECT DISTINCT toUnixTimestamp(day) AS day_s FROM (${[
          of(table, 'time'),
          ...rollupsOf(table).map((rollup) => of(rollup.table, 'bucket')),
        ].join(' UNION ALL ')}) ORDER BY day_s`,
        { partition, batch_no: batchNo },
      );
      days.push(...found.map(({ day_s }) => ({ table, dayMs: day_s * 1_000 })));
    }
    return days;
  }

  async correct(partition: number, { table, dayMs: from }: TableDay, fence: Fence): Promise<number> {
    const params = { partition, from, to: from + DAY_MS };
    await this.#endInserts(partition);
    let cells = 0;
    for (const rollup of rollupsOf(table)) {
      const count = async (condition: string) => {
        const [row] = await this.#clickhouse.query<{ n: number }>(
          `SELECT count() AS n FROM (${rollupDifferences(rollup)}) WHERE ${condition}`,
          params,
        );
        return Number(row?.n);
      };
      const wrong = await count('1');
      if (wrong === 0) continue;
      cells += wrong;
      // Values cannot be removed from a uniques state, so the day is rebuilt.
      if ((await count('are_uniques_wrong')) > 0) {
        await this.#clickhouse.command(
          `ALTER TABLE ${identifier(rollup.table)} DELETE WHERE log_partition = {partition:UInt16} AND ${inDay}`,
          params,
          { mutations_sync: 2 },
        );
      }
      // A sum is corrected by adding the difference, even a negative one: as UInt64 it wraps around.
      await this.#add(partition, rollup, rollupDifferences(rollup), params, fence);
    }
    return cells;
  }

  async placesOf(partition: number, batchNo: number, frames: readonly FrameSpan[]): Promise<readonly StoredPlace[]> {
    if (frames.length === 0) return [];
    const selects = rawTables.map(
      ({ name, kind, own = '1' }) => `SELECT ${kind} AS kind, producer_id, frame_no, idx FROM ${name}
        WHERE ${own} AND log_partition = {partition:UInt16} AND batch_no > {batch_no:UInt64} AND producer_id IN {producers:Array(String)}`,
    );
    return await this.#clickhouse.query<StoredPlace>(
      `SELECT DISTINCT kind, producer_id, frame_no, idx FROM (${selects.join(' UNION ALL ')})
       WHERE ${inSpans('kind')}`,
      { partition, batch_no: batchNo, ...paramsOfSpans(frames) },
    );
  }

  /** Kills running inserts of a partition, and waits until they have ended. Later inserts are subject to the fence. */
  async #endInserts(partition: number): Promise<void> {
    const running = `current_database = currentDatabase() AND (startsWith(query_id, {of:String}) OR startsWith(Settings['log_comment'], {of:String}))`;
    const params = { of: prefixOf(partition) };
    const deadline = this.#time.elapsed() + endPatienceMs;
    for (let looks = 0; ; looks++) {
      const [row] = await this.#clickhouse.query<{ n: number }>(
        `SELECT count() AS n FROM system.processes WHERE ${running}`,
        params,
      );
      if (Number(row?.n) === 0) return;
      if (this.#time.elapsed() > deadline) {
        throw new ClickHouseFailure('unavailable', 0, `an insert of partition ${partition} does not end`, undefined);
      }
      if (looks === 0) await this.#clickhouse.command(`KILL QUERY WHERE ${running} ASYNC`, params);
      await sleep(this.#time, endPollMs);
    }
  }

  #queryId(partition: number): string {
    return prefixOf(partition) + randomUUID();
  }
}

/** Query id prefix that identifies the running queries that change the stored data of a partition. */
function prefixOf(partition: number): string {
  return `ingest:${partition}:`;
}

function tokenOf(batch: BatchName, part: BatchPart): string {
  return `${batch.partition}:${batch.batch_no}:${part.table}:${part.partition}`;
}

function rollupsOf(table: string): readonly Rollup[] {
  return rollups.filter(({ raw }) => raw === table);
}

function paramsOf(batch: BatchName, part: BatchPart): Params {
  return {
    partition: batch.partition,
    batch_no: batch.batch_no,
    month: part.partition,
    from: part.time_from,
    day_from: Math.floor(part.time_from / DAY_MS) * DAY_MS,
    to: part.time_to + 1,
  };
}

/** SQL condition: the frame of a row is one of these. */
function inSpans(kind: string): string {
  return `arrayExists((k, p, f, l) -> k = ${kind} AND p = producer_id AND frame_no BETWEEN f AND l,
    {kinds:Array(String)}, {producers:Array(String)}, {first:Array(UInt64)}, {last:Array(UInt64)})`;
}

function paramsOfSpans(frames: readonly FrameSpan[]): Params {
  return {
    kinds: frames.map((span) => span.kind),
    producers: frames.map((span) => span.producer_id),
    first: frames.map((span) => span.from),
    last: frames.map((span) => span.to),
  };
}
