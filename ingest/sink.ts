/**
 * The sink stores a batch in ClickHouse exactly once. ClickHouse alone can't promise that: it writes the log of tokens before
 * the part is in place, so after a crash a token may be known whose rows are lost, in the raw table or in a rollup. So Postgres
 * knows what may be there, and whether ClickHouse has restarted since.
 *
 *   formed ──BEFORE──▶ inserting ──all parts answered──▶ stored ──AFTER + marks, one transaction──▶ done
 *                       │    ▲ │
 *             no answer │    │ └─ same run of ClickHouse: the same bytes with the same token again
 *                       ▼    │
 *                     doubted ── another run: nothing is believed; its rows are counted
 *                       │
 *                       ├─ all of them there: rollups compared with raw, wrong buckets rebuilt ──▶ stored
 *                       └─ some or none: deleted, rollups likewise, BEFORE withdrawn ──▶ formed anew under another id
 *
 * A batch that is refused for its data is doubted too; once it is withdrawn, the rows that are refused are looked for, and it
 * is formed anew with dead letters in their place. A refusal that is not about single rows is repeated until somebody helps.
 *
 * A BEFORE that a dead owner left behind enters at `inserting` (same run: formed again from the log, same bytes, same token)
 * or at `doubted`.
 *
 * Must stay true:
 * - No row is sent to ClickHouse whose batch is not in Postgres with its parts, tokens and the run of ClickHouse.
 * - A batch is inserted again only if the run of ClickHouse was the same before and after; so its token is reliable.
 * - Marks move in the transaction that removes the batch, and only for frames whose rows are in ClickHouse.
 * - Nothing is sent while the lease is not surely held.
 * - ClickHouse or Postgres being away is waited for, without a limit and with the batch in memory; nothing else is read then.
 */
import { randomUUID } from 'node:crypto';
import { type ClickHouse, ClickHouseFailure, identifier } from '#clickhouse/client.ts';
import { PostgresUnavailable } from '#common/postgres.ts';
import { sleep, type Time } from '#common/time.ts';
import {
  type BatchFormer,
  type FormChanges,
  type FormedBatch,
  type FormedPart,
  type LogFrame,
  runsOf,
} from './batch.ts';
import type { BatchEntry, BatchPart, Checkpoints } from './checkpoints.ts';
import type { Failpoints } from './failpoints.ts';
import type { FrameQueue } from './frame-queue.ts';
import type { HeldLease } from './held-lease.ts';
import { isAboutData, type RefusedRows } from './refused-rows.ts';
import type { Rollups } from './rollups.ts';

export interface SinkParts {
  readonly checkpoints: Checkpoints;
  readonly clickhouse: ClickHouse;
  readonly rollups: Rollups;
  readonly former: BatchFormer;
  readonly refusedRows: RefusedRows;
  readonly failpoints: Failpoints;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

export interface SinkCounters {
  batches: number;
  rows: number;
  dead_letters: number;
  retries: number;
  refusals: number;
  doubted: number;
  doubted_stored: number;
  doubted_discarded: number;
  rebuilt_buckets: number;
}

export function newSinkCounters(): SinkCounters {
  return {
    batches: 0,
    rows: 0,
    dead_letters: 0,
    retries: 0,
    refusals: 0,
    doubted: 0,
    doubted_stored: 0,
    doubted_discarded: 0,
    rebuilt_buckets: 0,
  };
}

/** `refused`: for its data; nothing was found out yet about what is stored of the batch. */
type InsertState = 'stored' | 'doubted' | 'refused';

const retryMinMs = 50;
const retryMaxMs = 5_000;
const repairPollMs = 100;

export class Sink {
  readonly counters: SinkCounters;
  /** Why ClickHouse takes no rows, while it refuses them; empty otherwise. */
  refusal = '';
  readonly #parts: SinkParts;
  readonly #lease: HeldLease;
  readonly #queue: FrameQueue;
  /** The run of ClickHouse as last seen; asked again after every failure. */
  #bootId = '';

  constructor(parts: SinkParts, lease: HeldLease, queue: FrameQueue, counters: SinkCounters) {
    this.#parts = parts;
    this.#lease = lease;
    this.#queue = queue;
    this.counters = counters;
  }

  /** Learns what others have stored of this partition. @param untilMs as `FirstSeen.load` takes it. @throws LeaseLost */
  async begin(untilMs: number): Promise<void> {
    await this.#patiently(() => this.#parts.former.begin(this.#lease.lease.partition, untilMs));
  }

  /** Under a new id; or under the one that it had, with what it was formed with. */
  async form(
    frames: readonly LogFrame[],
    batchId: string = randomUUID(),
    changes: FormChanges = {},
  ): Promise<FormedBatch> {
    this.#parts.failpoints.pass('taken');
    const batch = await this.#patiently(() => this.#parts.former.form(batchId, frames, changes));
    this.#parts.failpoints.pass('formed');
    return batch;
  }

  /** Returns when the batch is stored and its frames are committed. @throws LeaseLost */
  async store(first: FormedBatch): Promise<void> {
    const refused = new Set<string>();
    for (let batch = first, tries = 0; ; batch = await this.#formAnew(batch.frames, refused), tries++) {
      const entry = await this.#before(batch);
      this.#parts.failpoints.pass('before');
      const outcome = await this.#insertAll(entry, batch.parts);
      if (outcome === 'stored' || (await this.settle(entry)) === 'stored') {
        this.refusal = '';
        this.#parts.failpoints.pass('inserted');
        await this.finish(entry, batch.frames);
        this.#count(batch);
        return;
      }
      if (outcome !== 'refused') continue;
      const before = refused.size;
      for (const key of await this.#refusedRowsOf(batch.frames, refused)) refused.add(key);
      if (refused.size === before) await sleep(this.#parts.time, delayOf(tries));
    }
  }

  async #formAnew(frames: readonly LogFrame[], refused: ReadonlySet<string>): Promise<FormedBatch> {
    return await this.#patiently(() =>
      this.#parts.former.form(randomUUID(), frames, refused.size > 0 ? { refused } : {}),
    );
  }

  /** Rows that ClickHouse refuses, beside those that are known. */
  async #refusedRowsOf(frames: readonly LogFrame[], refused: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { former, refusedRows, log } = this.#parts;
    const found = await this.#patiently(async () => {
      const batch = await former.form(randomUUID(), frames, { refused, isPlaced: true });
      return await refusedRows.find(batch.batchId, batch.parts);
    });
    log({ rows: found.size }, 'ClickHouse refuses rows: they become dead letters');
    return found;
  }

  /** AFTER and the marks. @throws LeaseLost */
  async finish(entry: BatchEntry, frames: readonly Pick<LogFrame, 'header'>[]): Promise<void> {
    const marks = this.#queue.marksWith(frames);
    const { checkpoints } = this.#parts;
    await this.#patiently(() => checkpoints.commit(this.#lease.lease, entry.batch_id, entry.stream_time, marks));
    this.#queue.committed(frames, marks);
    this.#parts.failpoints.pass('after');
  }

  /**
   * Inserts a batch that an earlier owner left behind, formed again from the log.
   * @returns `different` when its bytes are not those that the earlier owner may have sent.
   */
  async insertAgain(entry: BatchEntry, batch: FormedBatch): Promise<'stored' | 'doubted' | 'different'> {
    const isSame =
      batch.parts.length === entry.parts.length &&
      entry.parts.every((part) => batch.parts.some((one) => one.token === part.token && one.sha256 === part.sha256));
    if (!isSame) return 'different';
    return (await this.#insertAll(entry, batch.parts, true)) === 'stored' ? 'stored' : 'doubted';
  }

  /**
   * Finds out what became of a batch by looking, and makes it whole or nothing.
   * @returns `absent` when no row of it is there and its BEFORE is withdrawn.
   * @throws LeaseLost
   */
  async settle(entry: BatchEntry): Promise<'stored' | 'absent'> {
    const { checkpoints, log } = this.#parts;
    const { lease } = this.#lease;
    this.counters.doubted++;
    await this.#patiently(() => checkpoints.suspect(lease, entry.batch_id));
    const partitions = [...new Set(entry.parts.map((part) => part.partition))].sort();
    for (const partition of partitions) {
      while (!(await this.#patiently(() => checkpoints.beginRepair(lease, partition))))
        await sleep(this.#parts.time, repairPollMs);
    }
    // An insert whose answer was lost may still have been running, so what was found must still be so at the end.
    let isStored: boolean;
    do {
      isStored = await this.#patiently(() => this.#wholeOrNothing(entry));
      await this.#repairRollups(entry);
    } while (!(await this.#patiently(() => this.#hasRows(entry, isStored))));
    if (!isStored) await this.#patiently(() => checkpoints.discard(lease, entry.batch_id));
    for (const partition of partitions) await this.#patiently(() => checkpoints.endRepair(lease, partition));
    this.counters[isStored ? 'doubted_stored' : 'doubted_discarded']++;
    log({ batch_id: entry.batch_id, stored: isStored }, 'a batch in doubt was looked for');
    return isStored ? 'stored' : 'absent';
  }

  /** What a predecessor was repairing is done, or was begun anew by us. */
  async endRepairs(): Promise<void> {
    await this.#patiently(() => this.#parts.checkpoints.endRepairs(this.#lease.lease));
  }

  /** The run of ClickHouse, now. */
  async bootId(): Promise<string> {
    this.#bootId = await this.#patiently(() => this.#parts.clickhouse.bootId());
    return this.#bootId;
  }

  async #before(batch: FormedBatch): Promise<BatchEntry> {
    const { checkpoints } = this.#parts;
    const entry: BatchEntry = {
      batch_id: batch.batchId,
      frames: runsOf(batch.frames),
      parts: batch.parts.map(({ table, partition, rows, sha256, token, time_from, time_to, formed_with }) => {
        const part = { table, partition, rows, sha256, token, time_from, time_to };
        return formed_with === undefined ? part : { ...part, formed_with };
      }),
      boot_id: this.#bootId === '' ? await this.bootId() : this.#bootId,
      stream_time: batch.streamTime,
    };
    while (!(await this.#patiently(() => checkpoints.begin(this.#lease.lease, entry))))
      await sleep(this.#parts.time, repairPollMs);
    return entry;
  }

  async #insertAll(entry: BatchEntry, parts: readonly FormedPart[], wasTried = false): Promise<InsertState> {
    for (const part of parts) {
      const state = await this.#insert(entry, part, wasTried);
      if (state !== 'stored') return state;
      this.#parts.failpoints.pass('part_inserted');
    }
    return 'stored';
  }

  /** One part until it is in, or until the run of ClickHouse is no longer the one that the batch was made for. */
  async #insert(entry: BatchEntry, part: FormedPart, wasTried: boolean): Promise<InsertState> {
    const { clickhouse, log } = this.#parts;
    for (let tries = wasTried ? 1 : 0; ; tries++) {
      if (tries > 0 && (await this.bootId()) !== entry.boot_id) return 'doubted';
      await this.#lease.ensureHeld();
      const outcome = await clickhouse.insert(part.table, part.body, {
        token: part.token,
        format: 'RowBinary',
        columns: part.columns,
      });
      if (outcome.kind === 'written') {
        return tries === 0 || (await this.bootId()) === entry.boot_id ? 'stored' : 'doubted';
      }
      this.counters[outcome.kind === 'refused' ? 'refusals' : 'retries']++;
      log(
        { table: part.table, rows: part.rows, code: outcome.code, reason: outcome.message.slice(0, 300) },
        'an insert failed',
      );
      if (outcome.kind === 'refused') {
        this.refusal = `ClickHouse refuses rows of ${part.table} (code ${outcome.code})`;
        if (isAboutData(outcome.code)) return 'refused';
      }
      await sleep(this.#parts.time, delayOf(tries));
    }
  }

  /** Counts the rows of a batch; unless all are there, deletes what is. */
  async #wholeOrNothing(entry: BatchEntry): Promise<boolean> {
    if (await this.#hasRows(entry, true)) return true;
    for (const part of entry.parts) {
      while ((await this.#rowsOf(entry, part)) > 0) {
        await this.#lease.ensureHeld();
        await this.#parts.clickhouse.command(
          `ALTER TABLE ${identifier(part.table)} DELETE IN PARTITION ID '${part.partition.replaceAll(/\D/g, '')}' WHERE batch_id = {batch_id:String}`,
          { batch_id: entry.batch_id },
          { mutations_sync: 2 },
        );
      }
    }
    return false;
  }

  async #hasRows(entry: BatchEntry, isStored: boolean): Promise<boolean> {
    const counts = await Promise.all(entry.parts.map((part) => this.#rowsOf(entry, part)));
    return counts.every((count, index) => count === (isStored ? entry.parts[index]?.rows : 0));
  }

  async #repairRollups(entry: BatchEntry): Promise<void> {
    for (const { table, partition, time_from, time_to } of entry.parts) {
      const range = { from: time_from, to: time_to };
      this.counters.rebuilt_buckets += await this.#patiently(() => this.#parts.rollups.repair(table, partition, range));
    }
  }

  async #rowsOf(entry: BatchEntry, part: BatchPart): Promise<number> {
    const rows = await this.#parts.clickhouse.query<{ rows: number }>(
      `SELECT count() AS rows FROM ${identifier(part.table)} WHERE _partition_id = {partition:String} AND batch_id = {batch_id:String}`,
      { partition: part.partition, batch_id: entry.batch_id },
    );
    return Number(rows[0]?.rows ?? 0);
  }

  /** Runs a step until the server it needs is there. A step may run several times, so each is written to stand that. */
  async #patiently<T>(step: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      await this.#lease.ensureHeld();
      try {
        return await step();
      } catch (error) {
        if (!(error instanceof PostgresUnavailable) && !(error instanceof ClickHouseFailure)) throw error;
        this.counters.retries++;
        this.#parts.log({ reason: error.message.slice(0, 300) }, 'a server is away');
        await sleep(this.#parts.time, delayOf(tries));
      }
    }
  }

  #count(batch: FormedBatch): void {
    this.counters.batches++;
    this.counters.rows += batch.rows;
    for (const count of batch.rejections.values()) this.counters.dead_letters += count;
  }
}

function delayOf(tries: number): number {
  return Math.min(retryMaxMs, retryMinMs * 2 ** Math.min(tries, 10));
}
