/**
 * Periodic tasks of ingest other than storing batches. The owner of partition 0 runs those that must run once for all
 * ingest processes.
 */
import { MINUTE_MS } from '#common/durations.ts';
import { objectIn } from '#common/json-object.ts';
import { machineNameTaken } from '#common/log/marks.ts';
import type { Nats, NatsMessage } from '#common/stores/nats.ts';
import { type Postgres, PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { systemTime } from '#common/time.ts';
import { ExpiredClaims } from './attribution/expired-claims.ts';
import { type MemoryPolicy, memoryPolicyOf } from './attribution/redis-memory.ts';
import type { Checkpoints } from './checkpoints.ts';
import { DeletionClock } from './deletion-clock.ts';
import { type Erasures, refreshMs } from './erasures.ts';

export interface ChoresOptions {
  readonly nats: Nats;
  readonly postgres: Postgres;
  readonly redis: Redis | null;
  readonly checkpoints: Checkpoints;
  readonly erasures: Erasures;
  /** Whether this process currently owns partition 0. */
  readonly isFirst: () => boolean;
  readonly log: (fields: object, line: string) => void;
}

const machineCharsMax = 255;
const holderCharsMax = 64;

export class Chores {
  memoryPolicy: MemoryPolicy = { policy: '', fault: '' };
  readonly #options: ChoresOptions;
  readonly #claims: ExpiredClaims;
  readonly deletionClock: DeletionClock;
  readonly #ends: (() => void)[] = [];

  constructor(options: ChoresOptions) {
    this.#options = options;
    this.#claims = new ExpiredClaims(options.postgres);
    this.deletionClock = new DeletionClock({ ...options, time: systemTime });
  }

  start(): void {
    const { nats } = this.#options;
    void ifReachable(() => this.deletionClock.advance());
    const everyMinute = systemTime.every(MINUTE_MS, () => void this.#onMinute());
    const refreshing = systemTime.every(refreshMs, () => void this.#refreshErasures());
    this.#ends.push(
      nats.subscribe(nats.names.progress, (message) => void this.#storeProgress(message)),
      () => systemTime.clear(everyMinute),
      () => systemTime.clear(refreshing),
    );
  }

  stop(): void {
    for (const end of this.#ends) end();
  }

  async #onMinute(): Promise<void> {
    void this.readMemoryPolicy();
    await ifReachable(() => this.deletionClock.advance());
    if (this.#options.isFirst()) await ifReachable(() => this.#claims.delete());
  }

  /**
   * Called once Redis is connected, and every minute. Logs policy changes, and at startup a policy that is not safe.
   */
  async readMemoryPolicy(): Promise<void> {
    const { redis, log } = this.#options;
    if (!redis) return;
    const before = this.memoryPolicy;
    this.memoryPolicy = await memoryPolicyOf(redis).catch(() => before);
    const { policy, fault } = this.memoryPolicy;
    if (fault !== before.fault) log({ policy }, fault || 'the memory policy of Redis is safe again');
  }

  /** While Postgres is unavailable, the known erasures stay; nothing is stored then either. */
  async #refreshErasures(): Promise<void> {
    await ifReachable(() => this.#options.erasures.refresh());
  }

  /** Stores the progress that publishers report, for the `as_of` of queries. */
  async #storeProgress({ bytes, reply }: NatsMessage): Promise<void> {
    const { nats, checkpoints, isFirst, log } = this.#options;
    if (!isFirst()) return;
    const { machine, committed_to, holder = '' } = objectIn(bytes.toString());
    if (typeof machine !== 'string' || machine.length > machineCharsMax || typeof committed_to !== 'number') return;
    if (typeof holder !== 'string' || holder.length > holderCharsMax) return;
    await ifReachable(
      async () => {
        if (await checkpoints.reportProgress(machine, Math.floor(committed_to), holder)) return;
        log({ machine }, 'two machines report under one name: MACHINE_NAME must be unique');
        if (reply !== '') nats.publish(reply, Buffer.from(machineNameTaken));
      },
      (error) => log({ reason: error.message }, 'the progress of a publisher could not be stored'),
    );
  }
}

async function ifReachable(
  work: () => Promise<unknown>,
  otherwise: (error: PostgresUnavailable) => void = () => undefined,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof PostgresUnavailable)) throw error;
    otherwise(error);
  }
}
