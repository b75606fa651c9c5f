/**
 * The numbers of a partition's batches, and the fence: ClickHouse refuses batches below it, and everything of an earlier owner.
 *
 * Must stay true:
 * - Numbers of a partition only grow, across owners and clocks.
 * - A batch is in Postgres with its number and parts before any row of it is sent.
 * - A batch is less than FENCE_REACH above the fence of its owner when it is sent.
 */
import type { BatchName } from '#clickhouse/rows.ts';
import { type BatchEntry, LeaseLost } from './checkpoints.ts';
import type { HeldPartition } from './held-partition.ts';
import { FENCE_REACH, type Fence } from './raw-store.ts';

export class BatchNumbers {
  readonly #held: HeldPartition;
  /** The largest number that was given to a batch. */
  #lastNo: number;
  /** The largest number that was written to Postgres: a batch that is not above it is too late. */
  #begunNo: number;
  #fence = 0;
  /** Identifies this owner in ClickHouse. An epoch alone may come again after Postgres was restored. */
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

  /** The number that the next batch gets at least: above all that were given, and about the time. */
  get nextNo(): number {
    return Math.max(this.#lastNo + 1, this.#held.parts.time.now());
  }

  /** Gives the next number. */
  nextName(): BatchName {
    this.#lastNo = this.nextNo;
    return { partition: this.#held.partition, batch_no: this.#lastNo };
  }

  /** Whether a batch must get another number: it was formed while the one before had to be formed again. */
  isTooLow(batchNo: number): boolean {
    return batchNo < this.#fence || batchNo <= this.#begunNo;
  }

  /** BEFORE: writes down in Postgres what is about to be inserted. @throws LeaseLost */
  async begin(entry: BatchEntry): Promise<void> {
    const { checkpoints } = this.#held.parts;
    if (entry.batch_no >= this.#fence + FENCE_REACH) await this.raiseFence(entry.batch_no);
    await this.#held.patiently(() => checkpoints.begin(this.#held.lease.lease, entry, this.#begunNo));
    this.#begunNo = entry.batch_no;
  }

  /** Writes down frames whose rows are stored although Postgres lost that; they are in doubt until committed. @throws LeaseLost */
  async learn(entry: BatchEntry, newestNo: number): Promise<void> {
    const { checkpoints } = this.#held.parts;
    await this.#held.patiently(() => checkpoints.learn(this.#held.lease.lease, entry, newestNo));
    this.#begunNo = Math.max(this.#begunNo, newestNo);
    this.#held.inDoubt.addBatch(entry);
  }

  /** Once nothing is left in doubt of what earlier owners began. */
  noteRecovered(): void {
    this.#held.lease.noteDecided(this.#begunNo);
  }

  get fence(): Fence {
    return { batchNoMin: this.#fence, owner: this.#owner };
  }

  /**
   * From its return on, ClickHouse accepts no batch of the partition below the number, and nothing from an earlier owner.
   * @param isNewOwner at the first time.
   * @returns the fence in force. @throws LeaseLost
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

  /** Shuts out what this owner began to add to rollups and had no answer to. @throws LeaseLost */
  async raiseFenceByOne(): Promise<void> {
    await this.raiseFence(this.#fence + 1);
  }
}
