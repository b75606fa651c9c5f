/**
 * Periodic tasks of ingest other than storing batches. The owner of partition 0 runs those that must run once for all
 * ingest processes.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { EVENT_AHEAD_MAX_MS } from '#common/event-time.ts';
import { objectIn } from '#common/json-object.ts';
import { machineNameTaken } from '#common/log/marks.ts';
import type { NatsClient, NatsMessage } from '#common/stores/nats.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import type { Time } from '#common/time.ts';
import { ExpiredClaims } from './attribution/expired-claims.ts';
import { type MemoryPolicy, memoryPolicyOf } from './attribution/redis-memory.ts';
import type { Checkpoints } from './checkpoints.ts';
import { DeletionClock } from './deletion-clock.ts';
import { type Erasures, refreshMs } from './erasures.ts';
import type { Retention } from './retention.ts';

export interface ChoresOptions {
  readonly nats: NatsClient;
  readonly postgres: Queries;
  readonly redis: Redis | null;
  readonly checkpoints: Checkpoints;
  readonly erasures: Pick<Erasures, 'refresh'>;
  readonly retention: Retention;
  /** Whether this process currently owns partition 0. */
  readonly isFirst: () => boolean;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

const machineCharsMax = 255;
const holderCharsMax = 64;
/** Publishers report twice a second; a machine that stopped is forgotten. */
const clockKeptMs = MINUTE_MS;
const machinesMax = 10_000;
/** Rows leave ClickHouse when all rows of their month have expired. */
const partsKeptMs = 40 * DAY_MS;

export class Chores {
  memoryPolicy: MemoryPolicy = { policy: '', fault: '' };
  readonly #options: ChoresOptions;
  readonly #claims: ExpiredClaims;
  readonly deletionClock: DeletionClock;
  readonly #ends: (() => void)[] = [];
  readonly #clocks = new Map<string, { readonly aheadMs: number; readonly at: number }>();

  constructor(options: ChoresOptions) {
    this.#options = options;
    this.#claims = new ExpiredClaims(options.postgres);
    this.deletionClock = new DeletionClock(options);
  }

  start(): void {
    const { nats, time } = this.#options;
    void ifReachable(() => this.deletionClock.advance());
    const everyMinute = time.every(MINUTE_MS, () => void this.#onMinute());
    const refreshing = time.every(refreshMs, () => void this.#refreshErasures());
    this.#ends.push(
      nats.subscribe(nats.names.progress, (message) => void this.#storeProgress(message)),
      () => time.clear(everyMinute),
      () => time.clear(refreshing),
    );
  }

  stop(): void {
    for (const end of this.#ends) end();
  }

  async #onMinute(): Promise<void> {
    void this.readMemoryPolicy();
    await ifReachable(() => this.deletionClock.advance());
    await ifReachable(() => this.forgetExpired());
    if (this.#options.isFirst()) await ifReachable(() => this.#claims.delete());
  }

  /** Reads what retention is in force, and deletes lines of the ledger whose rows it has removed. */
  async forgetExpired(): Promise<void> {
    const { now, ageMaxOf } = await this.#options.retention.refresh();
    for (const [table, ageMax] of this.#options.isFirst() ? ageMaxOf : []) {
      const age = ageMax + partsKeptMs;
      await this.#options.checkpoints.forgetLedger(table, Math.floor(now - age), age);
    }
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

  /** By machine, how far its clock is ahead of that of Postgres, in ms; only in the owner of partition 0. */
  get clocksAhead(): ReadonlyMap<string, number> {
    const from = this.#options.time.elapsed() - clockKeptMs;
    for (const [machine, { at }] of this.#clocks) if (at < from) this.#clocks.delete(machine);
    return new Map([...this.#clocks].map(([machine, { aheadMs }]) => [machine, aheadMs]));
  }

  #noteClock(machine: string, aheadMs: number): void {
    const { log } = this.#options;
    const [isWrong, wasWrong] = [aheadMs, this.#clocks.get(machine)?.aheadMs ?? 0].map(
      (ms) => Math.abs(ms) > EVENT_AHEAD_MAX_MS,
    );
    if (isWrong && !wasWrong) {
      const ahead_seconds = Math.round(aheadMs / 1000);
      log({ machine, ahead_seconds }, "the clock of a machine is wrong: its records get the log's time");
    }
    if (this.#clocks.size < machinesMax || this.#clocks.has(machine))
      this.#clocks.set(machine, { aheadMs, at: this.#options.time.elapsed() });
  }

  /** Stores the progress that publishers report, for the `as_of` of queries. */
  async #storeProgress({ bytes, reply }: NatsMessage): Promise<void> {
    const { nats, checkpoints, isFirst, log } = this.#options;
    if (!isFirst()) return;
    const { machine, committed_to, sent_at, holder = '' } = objectIn(bytes.toString());
    if (typeof machine !== 'string' || machine.length > machineCharsMax || typeof committed_to !== 'number') return;
    if (typeof holder !== 'string' || holder.length > holderCharsMax) return;
    const sentAt = Number.isSafeInteger(sent_at) ? Number(sent_at) : undefined;
    await ifReachable(
      async () => {
        const aheadMs = await checkpoints.reportProgress({
          machine,
          committedTo: Math.floor(committed_to),
          sentAt,
          holder,
        });
        if (aheadMs !== undefined) {
          this.#noteClock(machine, aheadMs);
          return;
        }
        log({ machine }, 'two machines report under one name: MACHINE_NAME must be unique');
        if (reply !== '') nats.publish(reply, Buffer.from(machineNameTaken));
      },
      (error) => log({ reason: error.message }, 'the progress of a publisher could not be stored'),
    );
  }
}

async function ifReachable(
  work: () => Promise<unknown>,
  otherwise: (error: Error) => void = () => undefined,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof PostgresUnavailable) && !(error instanceof ClickHouseFailure)) throw error;
    otherwise(error);
  }
}
