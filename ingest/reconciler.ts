/**
 * Finds out what happened to a batch whose insert got no answer, and completes its rollups.
 *
 *   in doubt ──▶ fenced off ──▶ looked up ─┬─ all of its rows are stored ──▶ rollups completed ──▶ stored
 *                                          ├─ some ──▶ rollups completed, the batch kept as partial ──▶ partial
 *                                          └─ none ──▶ the batch withdrawn from Postgres ──▶ absent
 *
 * Invariants:
 * - A batch is looked up only when the fence is above it, or its insert was answered with a refusal.
 * - Only the newest batch of a partition may lack rollups: the next begins when this one is stored, partial or absent.
 *   So the presence of any cell of the batch shows that a rollup has it completely.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import type { BatchName } from '#clickhouse/rows.ts';
import { sleep } from '#common/time.ts';
import type { BatchNumbers } from './batch-numbers.ts';
import type { BatchEntry, BatchPart } from './checkpoints.ts';
import type { HeldPartition } from './held-partition.ts';
import type { TableDay } from './raw-store.ts';
import { delayOf } from './retry-delay.ts';

export type Reconciled = 'stored' | 'partial' | 'absent';

export class Reconciler {
  readonly #held: HeldPartition;
  readonly #numbers: BatchNumbers;

  constructor(held: HeldPartition, numbers: BatchNumbers) {
    this.#held = held;
    this.#numbers = numbers;
  }

  /**
   * @param isEnded whether no insert of the batch is running any more.
   * @param isNewest whether it is the newest of its partition.
   * @throws LeaseLost
   */
  async reconcile(entry: BatchEntry, { isEnded = false, isNewest = true } = {}): Promise<Reconciled> {
    const { partition, counters, parts } = this.#held;
    const batch = { partition, batch_no: entry.batch_no };
    counters.in_doubt++;
    if (!isEnded && this.#numbers.fence.batchNoMin <= entry.batch_no)
      await this.#numbers.raiseFence(entry.batch_no + 1);
    let [isWhole, isAnywhere] = [true, false];
    for (const part of entry.parts) {
      const rows = await this.#held.patiently(() => parts.store.rowsOf(batch, part));
      if (isNewest && rows > 0) await this.completeRollups(batch, part);
      else if (isNewest) await this.#reportRollupsAhead(batch, part);
      isAnywhere ||= rows > 0;
      isWhole &&= rows === part.rows;
    }
    const outcome = isWhole ? 'stored' : isAnywhere ? 'partial' : 'absent';
    await this.#note(entry, outcome);
    parts.log({ batch_no: entry.batch_no, outcome }, 'a batch in doubt was looked up');
    return outcome;
  }

  /**
   * Completes every rollup that lacks a batch; the batch must be the newest, with its rows stored.
   * @throws LeaseLost
   */
  async completeRollups(batch: BatchName, part: BatchPart): Promise<void> {
    const { parts, lease, counters } = this.#held;
    const { store, time } = parts;
    for (let tries = 0; ; tries++) {
      // An earlier attempt may still run or arrive; a higher fence makes it a no-op. Or another owner's fence may be in
      // force.
      if (tries > 0) await this.#numbers.raiseFenceByOne();
      const missing = await this.#held.patiently(() => store.rollupsWithout(batch, part));
      for (const rollup of missing) {
        await lease.ensureHeld();
        try {
          await store.fillIn(batch, part, rollup, this.#numbers.fence);
          counters.filled_rollups++;
        } catch (error) {
          if (!(error instanceof ClickHouseFailure)) throw error;
          counters.retries++;
          await sleep(time, delayOf(tries));
        }
      }
      if (missing.length === 0) return;
    }
  }

  /**
   * Corrects the rollups of a day of this partition to match its raw rows.
   * @returns how many cells were wrong.
   * @throws LeaseLost
   */
  async correct(day: TableDay): Promise<number> {
    const { partition, parts } = this.#held;
    let tries = 0;
    return await this.#held.patiently(async () => {
      if (tries++ > 0) await this.#numbers.raiseFenceByOne();
      return await parts.store.correct(partition, day, this.#numbers.fence);
    });
  }

  async #note(entry: BatchEntry, outcome: Reconciled): Promise<void> {
    const { checkpoints, store } = this.#held.parts;
    const { counters, lease, inDoubt, partition } = this.#held;
    if (outcome === 'absent') {
      await this.#held.patiently(() => checkpoints.discard(lease.lease, entry.batch_no));
      counters.in_doubt_discarded++;
    } else if (outcome === 'partial') {
      const rows = await this.#held.patiently(() =>
        store.rowsByFrame(partition, [entry.batch_no, entry.batch_no], entry.frames),
      );
      await this.#held.patiently(() => checkpoints.keepPartial(lease.lease, entry.batch_no, rows));
      inDoubt.addBatch({ ...entry, is_partial: true, stored: entry.is_again ? [] : rows });
      counters.in_doubt_partial++;
    } else counters.in_doubt_stored++;
    // A stored batch is decided later, together with its marks.
    if (outcome !== 'stored') lease.noteDecided(entry.batch_no);
  }

  /**
   * A rollup gets a batch after the raw table. If only the rollup has it, the raw table has lost it, and only a rebuild
   * helps.
   */
  async #reportRollupsAhead(batch: BatchName, part: BatchPart): Promise<void> {
    const { counters, parts } = this.#held;
    const { store, log } = parts;
    const without = await this.#held.patiently(() => store.rollupsWithout(batch, part));
    const ahead = store.rollupsOf(part.table).filter((rollup) => !without.includes(rollup));
    if (ahead.length === 0) return;
    counters.rollups_ahead += ahead.length;
    const days = [part.time_from, part.time_to].map((ms) => new Date(ms).toISOString().slice(0, 10));
    log(
      { ...batch, rollups: ahead, from: days[0], to: days[1] },
      'rollups have rows that the raw table has lost: rebuild these days',
    );
  }
}
