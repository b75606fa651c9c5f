/**
 * Assigns the numbers of a partition's batches, and raises the fence: ClickHouse refuses batches below it, and all
 * batches of an earlier owner.
 *
 * Invariants:
 * - Numbers of a partition only grow, across owners and clocks.
 * - A batch is in Postgres with its number and parts before any row of it is sent.
 * - A batch is less than FENCE_REACH above the fence of its owner when it is sent.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import { type BatchEntry, LeaseLost, type LedgerLine } from './checkpoints.ts';
import { type LogFrame, streamTimeOf } from './formed-batch.ts';
import type { HeldPartition } from './held-partition.ts';
import { FENCE_REACH, type Fence } from './raw-store.ts';

export class BatchNumbers {
  readonly #held: HeldPartition;
  /** The largest number assigned to a batch. */
  #lastNo: number;
  /** The largest number written to Postgres: a batch at or below it is too late. */
  #begunNo: number;
  #fence = 0;
  /** Identifies this owner in ClickHouse. The epoch alone is not unique: it may recur after Postgres was restored. */
  #owner: string;

  constructor(held: HeldPartition) {
    this.#held = held;
    const { owner, epoch, lastBatchNo } = held.lease.lease;
    this.#lastNo = lastBatchNo;
    this.#begunNo = lastBatchNo;
    this.#owner = `${owner} ${epoch} ${held.parts.time.now()}`;
  }

  /** Continues with the numbers and the fence of another sink of the same lease. */
  follow(other: BatchNumbers): void {
    [this.#lastNo, this.#begunNo, this.#fence] = [other.#lastNo, other.#begunNo, other.#fence];
    this.#owner = other.#owner;
  }

  /**
   * Minimum number of the next batch: above all assigned numbers, and at least the middle one of three times in ms, so
   * that one wrong clock is outvoted: ours, ClickHouse's, and the log's of the newest frame (without frames, a low one).
   */
  nextNo(streamTime = 0): number {
    const { time, storeTimes } = this.#held.parts;
    const own = time.now();
    const store = storeTimes === undefined ? own : (storeTimes.now ?? 0);
    const [, middle = own] = [own, store, streamTime].sort((a, b) => a - b);
    return Math.max(this.#lastNo + 1, Math.floor(middle));
  }

  /** Assigns the next number. @param frames those of the batch. */
  nextName(frames: readonly LogFrame[] = []): BatchName {
    this.#lastNo = this.nextNo(streamTimeOf(frames));
    return { partition: this.#held.partition, batch_no: this.#lastNo };
  }

  /** Whether a batch must get another number, because it was formed while the previous one had to be formed again. */
  isTooLow(batchNo: number): boolean {
    return batchNo < this.#fence || batchNo <= this.#begunNo;
  }

  /** BEFORE: records in Postgres what is about to be inserted. @throws LeaseLost */
  async begin(entry: BatchEntry): Promise<void> {
    const { checkpoints } = this.#held.parts;
    if (entry.batch_no >= this.#fence + FENCE_REACH) await this.raiseFence(entry.batch_no);
    await this.#held.patiently(() => checkpoints.begin(this.#held.lease.lease, entry, this.#begunNo));
    this.#begunNo = entry.batch_no;
  }

  /**
   * Records frames whose rows are stored but that Postgres has lost; they are in doubt until committed.
   * @throws LeaseLost
   */
  async learn(entry: BatchEntry, newestNo: number, stored: readonly LedgerLine[]): Promise<void> {
    const { checkpoints } = this.#held.parts;
    await this.#held.patiently(() => checkpoints.learn(this.#held.lease.lease, entry, newestNo, stored));
    this.#begunNo = Math.max(this.#begunNo, newestNo);
    this.#held.inDoubt.addBatch(entry);
  }

  /** Called when none of the batches that earlier owners began is left in doubt. */
  noteRecovered(): void {
    this.#held.lease.noteDecided(this.#begunNo);
  }

  get fence(): Fence {
    return { batchNoMin: this.#fence, owner: this.#owner };
  }

  /**
   * After it returns, ClickHouse accepts no batch of the partition below the number, and no batch of an earlier owner.
   * @param isNewOwner true on the first call.
   * @returns the fence in force.
   * @throws LeaseLost
   */
  async raiseFence(batchNoMin: number, isNewOwner = false): Promise<number> {
    const { partition, parts } = this.#held;
    const raise = () => parts.store.fence(partition, batchNoMin, this.#owner, isNewOwner);
    const fence = await this.#held.patiently(raise);
    if (fence.owner !== this.#owner) throw new LeaseLost(this.#held.lease.lease, 'has the fence of another owner');
    this.#fence = fence.batchNoMin;
    this.#lastNo = Math.max(this.#lastNo, this.#fence - 1);
    return this.#fence;
  }

  /** Shuts out rollup inserts that this owner started and that got no answer. @throws LeaseLost */
  async raiseFenceByOne(): Promise<void> {
    await this.raiseFence(this.#fence + 1);
  }
}
