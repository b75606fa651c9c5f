/**
 * A lease as its owner sees it. It is surely held from a renewal that was asked for until its seconds are over by the
 * monotonic clock, which goes on while the process is stopped; so who slept too long finds out before it sends anything.
 */
import { PostgresUnavailable } from '#common/postgres.ts';
import { type Checkpoints, type Lease, LeaseLost } from './checkpoints.ts';

/** Share of the lease at its end in which nothing new is begun: requests take their time. */
const safeShare = 0.8;
const renewsPerLease = 3;
const pollMs = 50;

export class HeldLease {
  readonly lease: Lease;
  readonly #checkpoints: Checkpoints;
  readonly #seconds: number;
  #heldUntil: number;
  #isLost = false;
  readonly #timer: NodeJS.Timeout;
  #isRenewing = false;
  readonly #onLost: () => void;

  constructor(checkpoints: Checkpoints, lease: Lease, seconds: number, acquiredAt: number, onLost: () => void) {
    this.lease = lease;
    this.#checkpoints = checkpoints;
    this.#seconds = seconds;
    this.#heldUntil = acquiredAt + seconds * 1000 * safeShare;
    this.#onLost = onLost;
    this.#timer = setInterval(() => void this.#renew(), (seconds * 1000) / renewsPerLease);
  }

  get isHeld(): boolean {
    return !this.#isLost && performance.now() < this.#heldUntil;
  }

  /** Waits until the lease is surely held. @throws LeaseLost */
  async ensureHeld(): Promise<void> {
    while (!this.isHeld) {
      if (this.#isLost) throw new LeaseLost(this.lease);
      await this.#renew();
      if (!this.isHeld) await new Promise((done) => setTimeout(done, pollMs));
    }
  }

  /** Counts as lost from now on: whoever waits for a server with it gives up. */
  abandon(): void {
    clearInterval(this.#timer);
    this.#isLost = true;
  }

  /** Lets go, so that another owner need not wait. */
  async release(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#isLost) return;
    this.#isLost = true;
    try {
      await this.#checkpoints.release(this.lease);
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }

  async #renew(): Promise<void> {
    if (this.#isRenewing || this.#isLost) return;
    this.#isRenewing = true;
    const asked = performance.now();
    try {
      await this.#checkpoints.renew(this.lease, this.#seconds);
      this.#heldUntil = asked + this.#seconds * 1000 * safeShare;
    } catch (error) {
      if (error instanceof LeaseLost) {
        this.#isLost = true;
        clearInterval(this.#timer);
        this.#onLost();
      } else if (!(error instanceof PostgresUnavailable)) {
        throw error;
      }
    } finally {
      this.#isRenewing = false;
    }
  }
}
