/**
 * Forms the batches of one partition: from frames that are not committed, without rows that are already stored, under
 * the next number.
 */
import type { FormChanges } from './batch-builder.ts';
import type { BatchNumbers } from './batch-numbers.ts';
import type { LaneName } from './checkpoints.ts';
import { type FormedBatch, type LogFrame, runsOf } from './formed-batch.ts';
import type { HeldPartition } from './held-partition.ts';

export class PartitionBatches {
  readonly #held: HeldPartition;
  readonly #numbers: BatchNumbers;

  constructor(held: HeldPartition, numbers: BatchNumbers) {
    this.#held = held;
    this.#numbers = numbers;
  }

  /** Loads what other owners stored for this partition. @param untilMs see `FirstSeen.load`. @throws LeaseLost */
  async begin(untilMs: number): Promise<void> {
    const { partition, parts } = this.#held;
    await this.#held.patiently(() => parts.former.begin(partition, untilMs));
  }

  /** Omits frames that turn out to be committed; none may be left. @throws LeaseLost */
  async form(frames: readonly LogFrame[], changes: FormChanges = {}): Promise<FormedBatch> {
    const { parts, queue, inDoubt, counters } = this.#held;
    parts.failpoints.pass('taken');
    await this.recallMarks(this.#held.queue.lanesToLearn(frames.map(({ header }) => header)));
    const fresh = queue.withoutCommitted(frames);
    const batch = await this.#held.patiently(async () => {
      const stored = await inDoubt.storedOf(fresh, parts.store);
      const all = stored === undefined ? changes : { ...changes, stored };
      counters.stored_before += stored?.size ?? 0;
      const gone = await inDoubt.goneOf(runsOf(fresh), parts.store);
      return { ...(await parts.former.form(this.#numbers.nextName(fresh), fresh, all)), gone };
    });
    parts.failpoints.pass('formed');
    return batch;
  }

  /** Finds the rows that ClickHouse refuses, other than the known ones. @throws LeaseLost */
  async findRefusedRows(frames: readonly LogFrame[], refused: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { former, refusedRows, log } = this.#held.parts;
    const found = await this.#held.patiently(async () => {
      const batch = await former.form(this.#numbers.nextName(frames), frames, { refused, isPlaced: true });
      return await refusedRows.find(batch.batch, batch.parts);
    });
    log({ rows: found.size }, 'ClickHouse refuses rows: they become dead letters');
    return found;
  }

  /**
   * Lanes that are new to this owner may have been silent for so long that their marks were not read.
   * @throws LeaseLost
   */
  async recallMarks(lanes: readonly LaneName[]): Promise<void> {
    const { queue, parts, lease, partition, counters } = this.#held;
    if (lanes.length === 0) return;
    const marks = await this.#held.patiently(() => parts.checkpoints.recallMarks(lease.lease, lanes));
    queue.learn(partition, lanes, marks);
    counters.marks_recalled += marks.length;
  }
}
