/**
 * A lease as its owner sees it. It is surely held from a renewal that was asked for until its seconds are over by a
 * clock that goes on while the process is stopped and the machine is suspended; so an owner that slept too long finds out
 * before it sends anything. One that was not renewed before its end is lost, also if Postgres would renew it: another owner may have
 * come and gone, and Postgres may have been restored to the time before.
 */
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time, type Timer } from '#common/time.ts';
import { type Checkpoints, type Lease, LeaseLost } from './checkpoints.ts';

/** Share of the lease at its end in which nothing new is begun: requests take their time. */
const safeShare = 0.8;
const renewsPerLease = 3;
const pollMs = 50;

export interface HeldLeaseOptions {
  readonly checkpoints: Pick<Checkpoints, 'renew' | 'release'>;
  readonly lease: Lease;
  readonly seconds: number;
  readonly time: Time;
  /** When the lease was asked for, by `time.elapsed`. */
  readonly askedAt: number;
  readonly onLost: () => void;
}

export class HeldLease {
  readonly lease: Lease;
  readonly #options: HeldLeaseOptions;
  #heldUntil: number;
  /** Its end by this process's clock. */
  #endsAt: number;
  #isLost = false;
  #isOver = false;
  readonly #timer: Timer;
  #isRenewing = false;

  constructor(options: HeldLeaseOptions) {
    const { lease, seconds, askedAt, time } = options;
    this.lease = lease;
    this.#options = options;
    this.#heldUntil = askedAt + seconds * 1000 * safeShare;
    this.#endsAt = askedAt + seconds * 1000;
    this.#timer = time.every((seconds * 1000) / renewsPerLease, () => void this.#renew());
  }

  /** Lost for good; one that is not surely held may be held again until its end. */
  get isLost(): boolean {
    return this.#isLost;
  }

  get isHeld(): boolean {
    return !this.#isLost && this.#options.time.elapsed() < this.#heldUntil;
  }

  /** Waits until the lease is surely held. @throws LeaseLost */
  async ensureHeld(): Promise<void> {
    while (!this.isHeld) {
      if (this.#isLost)
        throw new LeaseLost(this.lease, this.#isOver ? 'was held too long without a renewal' : undefined);
      await this.#renew();
      if (!this.isHeld) await sleep(this.#options.time, pollMs);
    }
  }

  /** Counts as lost from now on: whoever waits for a server with it gives up. */
  abandon(): void {
    this.#options.time.clear(this.#timer);
    this.#isLost = true;
  }

  /** Lets go, so that another owner need not wait. */
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
    const asked = time.elapsed();
    try {
      await checkpoints.renew(this.lease, seconds);
      if (asked >= this.#endsAt) {
        this.#isOver = true;
        this.#lose();
        return;
      }
      this.#heldUntil = asked + seconds * 1000 * safeShare;
      this.#endsAt = asked + seconds * 1000;
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
