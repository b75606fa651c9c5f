/**
 * The partitions that this process owns. Twice a second it sends a heartbeat, reads which ingest processes are alive
 * and who owns what, and acquires or releases partitions (partition-share.ts). Before a partition's lease is released,
 * the batch in progress is stored.
 *
 * Invariant: a record in a partition other than that of its id is decided only while this process owns all partitions,
 * each with everything reconciled that an earlier owner left behind; and no partition is released before such a batch
 * is decided.
 */
import { ClickHouseFailure } from '#clickhouse/client.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { sleep, type Time, type Timer } from '#common/time.ts';
import type { IngestMembership, Members } from './members.ts';
import type { PartitionOwner } from './partition-owner.ts';
import { type Share, shareOf } from './partition-share.ts';

export interface OwnedPartitionsOptions {
  /** Unique among live processes; the same after a restart of this one. */
  readonly owner: string;
  /** LOG_PARTITIONS. */
  readonly partitions: number;
  readonly leaseSeconds: number;
  readonly members: Members;
  readonly makeOwner: (partition: number) => PartitionOwner;
  /** Partitions that have messages in the log; null if the log does not answer. */
  readonly partitionsInLog: () => Promise<readonly number[] | null>;
  /** Partitions that ever had an owner, according to ClickHouse. Throws ClickHouseFailure. */
  readonly partitionsInStore: () => Promise<readonly number[]>;
  readonly time: Time;
  readonly log: (fields: object, line: string) => void;
}

const heartbeatMs = 500;
const lookIntoLogMs = 5_000;
const lookIntoStoreMs = 60_000;
const straysPollMs = 100;
/** How long after a stray was seen here this process expects more, whatever Postgres says. */
const straysHereMs = 60_000;

export class OwnedPartitions {
  readonly #options: OwnedPartitionsOptions;
  readonly #owners = new Map<number, PartitionOwner>();
  #share: Share = { all: [], mode: 'shared', take: [], letGo: [], target: null };
  #members = 0;
  #inLog: readonly number[] = [];
  #inStore: readonly number[] = [];
  #straysHereUntil = 0;
  readonly #timers: Timer[] = [];
  #isStopped = false;
  #beat: Promise<void> | undefined;

  constructor(options: OwnedPartitionsOptions) {
    this.#options = options;
  }

  get owners(): PartitionOwner[] {
    return [...this.#owners.values()];
  }

  /** Live ingest processes, and whether a single one currently owns all partitions. */
  get figures(): { readonly members: number; readonly isOne: boolean; readonly partitions: number } {
    return { members: this.#members, isOne: this.#share.mode === 'one', partitions: this.#share.all.length };
  }

  /** Whether this process runs its share of the partitions; otherwise why not. */
  get readiness(): true | string {
    const { target } = this.#share;
    if (target === null) return 'this ingest is not yet known to the others';
    const owners = this.owners;
    if (owners.some(({ state }) => state === 'recovering' || state === 'settled')) return 'recovering';
    const running = owners.filter(({ state }) => state === 'running').length;
    return running >= target || `runs ${running} of the ${target} partitions that are its share`;
  }

  of(partition: number): PartitionOwner | undefined {
    return this.#owners.get(partition);
  }

  start(): void {
    const { time } = this.#options;
    void this.#lookIntoLog();
    void this.#lookIntoStore();
    this.#heartbeat();
    this.#timers.push(
      time.every(heartbeatMs, () => this.#heartbeat()),
      time.every(lookIntoLogMs, () => void this.#lookIntoLog()),
      time.every(lookIntoStoreMs, () => void this.#lookIntoStore()),
    );
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const timer of this.#timers) this.#options.time.clear(timer);
    await this.#beat;
    await Promise.all(this.owners.map((owner) => owner.stop()));
    await this.#ifThere(() => this.#options.members.leave(this.#options.owner));
  }

  /**
   * Whether a settled partition may be read: at once while partitions are shared, otherwise when all of them are
   * settled here.
   */
  mayRun(): boolean {
    return this.#share.mode === 'shared' || this.#isWhole();
  }

  /**
   * Returns once records in partitions other than those of their ids may be decided. Returns at once during recovery:
   * batches of an earlier owner were already decided by it.
   * @throws PostgresUnavailable
   * @throws LeaseLost if the partition goes to another process instead.
   */
  async allowStrays(partition: number): Promise<void> {
    const owner = this.#owners.get(partition);
    if (owner === undefined || owner.state === 'recovering') return;
    const { members, time } = this.#options;
    owner.noteStrays();
    if (time.elapsed() >= this.#straysHereUntil) {
      this.#options.log(
        { partition },
        'records are in other partitions than their ids: one ingest takes over all partitions',
      );
    }
    await members.reportStrays();
    this.#straysHereUntil = time.elapsed() + straysHereMs;
    while (!this.#isWhole()) {
      owner.ensureStays();
      await sleep(time, straysPollMs);
    }
  }

  #isWhole(): boolean {
    const isSettled = (owner: PartitionOwner | undefined) =>
      owner !== undefined && !owner.isEnding && (owner.state === 'settled' || owner.state === 'running');
    return this.#share.mode === 'one' && this.#share.all.every((partition) => isSettled(this.#owners.get(partition)));
  }

  #heartbeat(): void {
    if (this.#beat !== undefined || this.#isStopped) return;
    this.#beat = this.#ifThere(() => this.#beatOnce()).finally(() => {
      this.#beat = undefined;
    });
  }

  async #beatOnce(): Promise<void> {
    const { members, owner, partitions, leaseSeconds, time } = this.#options;
    if (this.owners.some((one) => one.hasUndecidedStrays)) await members.reportStrays();
    const membership = await members.announce({ owner, partitions }, leaseSeconds);
    if (this.#isStopped) return;
    const areStraysHere = time.elapsed() < this.#straysHereUntil || this.owners.some((one) => one.hasUndecidedStrays);
    this.#apply(membership, shareOf(owner, membership, [...this.#inLog, ...this.#inStore], areStraysHere));
  }

  #apply(membership: IngestMembership, share: Share): void {
    this.#members = membership.members.length;
    this.#share = share;
    for (const partition of share.letGo) {
      const owner = this.#owners.get(partition);
      if (owner === undefined || owner.isEnding) continue;
      this.#options.log({ partition, members: this.#members, mode: share.mode }, 'partition goes to another ingest');
      void owner.stop();
    }
    for (const partition of share.take) {
      if (!this.#owners.has(partition) && !share.letGo.includes(partition)) this.#take(partition);
    }
  }

  #take(partition: number): void {
    const owner = this.#options.makeOwner(partition);
    this.#owners.set(partition, owner);
    owner.start();
    void owner.ended.then(() => {
      if (this.#owners.get(partition) === owner) this.#owners.delete(partition);
    });
  }

  async #lookIntoLog(): Promise<void> {
    this.#inLog = (await this.#options.partitionsInLog()) ?? [];
  }

  /** Postgres may have been restored to a time at which it did not know these partitions. */
  async #lookIntoStore(): Promise<void> {
    try {
      this.#inStore = await this.#options.partitionsInStore();
    } catch (error) {
      if (!(error instanceof ClickHouseFailure)) throw error;
    }
  }

  async #ifThere(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
    }
  }
}
