/**
 * A lease from its owner's point of view. It is certainly held from the moment a renewal was requested until its
 * seconds are over, by a clock that continues while the process is stopped and the machine is suspended. So an owner
 * that was suspended too long notices before it sends anything. A lease that was not renewed in time is lost even if
 * Postgres would renew it: another owner may have held it in between, and Postgres may have been restored to the time
 * before. It is also lost if Postgres has lost commits: acquiring the partition again recovers it, whether more records
 * arrive or not.
 */
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time, type Timer } from '#common/time.ts';
import { type Checkpoints, type Lease, LeaseLost } from './checkpoints.ts';

/** The share of the lease in which a new step may begin, because requests take time. */
const safeShare = 0.8;
const renewsPerLease = 3;
const pollMs = 50;

export interface LeaseOptions {
  readonly checkpoints: Pick<Checkpoints, 'acquire' | 'renew' | 'release'>;
  readonly partition: number;
  /** Unique among live processes; the same after a restart of this one. */
  readonly owner: string;
  readonly seconds: number;
  readonly time: Time;
  readonly onLost: () => void;
}

export class HeldLease {
  readonly lease: Lease;
  readonly #options: LeaseOptions;
  #heldUntil: number;
  /** End of the lease by this process's clock. */
  #endsAt: number;
  #decidedNo = 0;
  #isLost = false;
  #isOver = false;
  readonly #timer: Timer;
  #isRenewing = false;

  /** @returns `undefined` if another owner holds the partition, or Postgres is unreachable. */
  static async acquire(options: LeaseOptions): Promise<HeldLease | undefined> {
    const { checkpoints, partition, owner, seconds, time } = options;
    const requestedAt = time.elapsed();
    try {
      const lease = await checkpoints.acquire(partition, owner, seconds);
      return lease && new HeldLease(options, lease, requestedAt);
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return undefined;
    }
  }

  /** @param requestedAt in terms of `time.elapsed`. */
  private constructor(options: LeaseOptions, lease: Lease, requestedAt: number) {
    const { seconds, time } = options;
    this.lease = lease;
    this.#options = options;
    this.#heldUntil = requestedAt + seconds * 1000 * safeShare;
    this.#endsAt = requestedAt + seconds * 1000;
    this.#timer = time.every((seconds * 1000) / renewsPerLease, () => void this.#renew());
  }

  /** Lost for good. A lease that is not certainly held may still be renewed until its end. */
  get isLost(): boolean {
    return this.#isLost;
  }

  get isHeld(): boolean {
    return !this.#isLost && this.#options.time.elapsed() < this.#heldUntil;
  }

  /** Waits until the lease is certainly held. @throws LeaseLost */
  async ensureHeld(): Promise<void> {
    while (!this.isHeld) {
      if (this.#isLost)
        throw new LeaseLost(this.lease, this.#isOver ? 'was held too long without a renewal' : undefined);
      await this.#renew();
      if (!this.isHeld) await sleep(this.#options.time, pollMs);
    }
  }

  /**
   * Postgres has confirmed that this batch and all below are decided. If Postgres loses that, the lease is lost at the
   * next renewal.
   */
  noteDecided(batchNo: number): void {
    this.#decidedNo = Math.max(this.#decidedNo, batchNo);
  }

  /** Marks the lease as lost, so that waits for a server end. */
  abandon(): void {
    this.#options.time.clear(this.#timer);
    this.#isLost = true;
  }

  /** Releases the lease, so that another owner need not wait for its end. */
  async release(): Promise<void> {
    this.#options.time.clear(this.#timer);
    if (this.#isLost) return;
    this.#isLost = true;
    try {
      await this.#options.checkpoints.release(this.lease);
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }

  async #renew(): Promise<void> {
    if (this.#isRenewing || this.#isLost) return;
    this.#isRenewing = true;
    const { checkpoints, seconds, time } = this.#options;
    const requestedAt = time.elapsed();
    try {
      await checkpoints.renew(this.lease, seconds, this.#decidedNo);
      if (requestedAt >= this.#endsAt) {
        this.#isOver = true;
        this.#lose();
        return;
      }
      this.#heldUntil = requestedAt + seconds * 1000 * safeShare;
      this.#endsAt = requestedAt + seconds * 1000;
    } catch (error) {
      if (error instanceof LeaseLost) {
        this.#lose();
      } else if (!(error instanceof PostgresUnavailable)) {
        throw error;
      }
    } finally {
      this.#isRenewing = false;
    }
  }

  #lose(): void {
    this.#isLost = true;
    this.#options.time.clear(this.#timer);
    this.#options.onLost();
  }
}
