/**
 * The simulated Postgres with the data of ingest and the claims of clicks. Each operation is one transaction. The
 * server can die, be slow, and go back to the state of a lagging replica or of a backup.
 */

import type { LedgerRow } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import { FrameSet, type LaneMarks, laneKey } from '#common/log/marks.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { ClaimStore, NewClaim, StoredClaims } from '#gateway/match/claim-store.ts';
import type { LateCursors } from '#ingest/attribution/late-cursors.ts';
import {
  type Checkpoints,
  type LaneName,
  type Lease,
  LeaseLost,
  type LostFrames,
  marksReadDays,
  type Revision,
} from '#ingest/checkpoints.ts';
import type { IngestMembership, Member, Members } from '#ingest/members.ts';
import { STRAYS_RECENT_SECONDS } from '#ingest/postgres-members.ts';
import type { Machine } from './machine.ts';
import {
  begun,
  booked,
  decidedIn,
  isLive,
  isOwned,
  type LeaseRow,
  learned,
  type MarkRow,
  nothing,
  partial,
  type State,
  without,
} from './postgres-state.ts';
import type { Program } from './program.ts';
import type { Scheduler } from './scheduler.ts';
import { CallableServer, type Caller, call } from './server-call.ts';
import { claimed, claimsFound, unexpired } from './simulated-claims.ts';

const commitsKeptMax = 200;
/** Probability that an insert of claims also deletes expired ones, which may happen at any time. */
const expiryShare = 0.1;
const timeoutMs = 12_000;

export class SimulatedPostgres extends CallableServer {
  readonly hits = { crashed: 0, commits_lost: 0, restored: 0, revisions_done: 0, claims: 0 };
  /** The error of its clock in milliseconds. */
  clockOffsetMs = 0;
  #state: State;
  #commits: State[] = [];
  #backup = nothing;
  readonly #epochMs: number;

  constructor(scheduler: Scheduler, epochMs: number) {
    super(scheduler);
    this.#epochMs = epochMs;
    this.#state = { ...nothing, deletionReached: epochMs };
    this.#commits.push(this.#state);
  }

  get now(): number {
    return Math.floor(this.#epochMs + this.scheduler.now + this.clockOffsetMs);
  }

  /** Dies, with committed data intact. */
  crash(): void {
    if (!this.isUp) return;
    this.isUp = false;
    this.hits.crashed++;
  }

  /** Fails over to a replica that lacks the last commits. */
  loseCommits(count: number): void {
    this.crash();
    const lost = this.#commits.splice(Math.max(0, this.#commits.length - count));
    if (lost.length === 0) return;
    this.hits.commits_lost++;
    this.#state = this.#commits.at(-1) ?? { ...nothing, deletionReached: this.now };
  }

  backUp(): void {
    this.#backup = this.#state;
  }

  /** @returns false if there is no backup. */
  restore(): boolean {
    if (this.#backup === nothing) return false;
    this.crash();
    this.hits.restored++;
    this.#state = this.#backup;
    this.#commits = [];
    return true;
  }

  /** How many batches are undecided: begun, and neither finished nor kept as partial. */
  get openBatches(): number {
    return [...this.#state.batches.values()].filter(({ entry }) => !entry.is_partial).length;
  }

  /** Requests a replay from the owners of all partitions, as `admin -- replay` does. @returns how many. */
  revise(revision: Revision): number {
    const { partitions } = this;
    this.#commit({ ...this.#state, revisions: new Map([...partitions].map((partition) => [partition, revision])) });
    return partitions.size;
  }

  /** Partitions with a lease or a stream time. */
  get partitions(): ReadonlySet<number> {
    return new Set([...this.#state.leases.keys(), ...this.#state.streamTimes.keys()]);
  }

  get ledger(): readonly LedgerRow[] {
    return [...this.#state.ledger.values()];
  }

  get lostFrames(): readonly LostFrames[] {
    return [...this.#state.lostFrames.values()];
  }

  get #deletionTime(): number {
    return Math.min(this.now, this.#state.deletionReached);
  }

  get openRevisions(): number {
    return this.#state.revisions.size;
  }

  /** The time up to which the log is stored, for the partition that lags most; `undefined` if there is none. */
  get committedTo(): number | undefined {
    const times = [...this.#state.streamTimes.values()];
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Claims of clicks by devices. */
  claimsOf(program: Program, machine: Machine): ClaimStore {
    const { read, write } = this.#transactionsOf(program, machine);
    return {
      insert: (given) => write((state) => this.#claimed(state, given)),
      find: (clickIds, devices) => read(({ claims }) => claimsFound(claims, clickIds, devices)),
      opened: () => Promise.resolve(),
      byMatchId: (id) => read(({ claims }) => [...claims.values()].find(({ match_id }) => match_id === id) ?? null),
    };
  }

  lateCursorsOf(program: Program, machine: Machine): LateCursors {
    const { read, write } = this.#transactionsOf(program, machine);
    return {
      read: (partition) => read((state) => state.lateCursors.get(partition) ?? null),
      write: (partition, cursor) =>
        write((state) => [{ ...state, lateCursors: new Map(state.lateCursors).set(partition, cursor) }, undefined]),
      decided: () => read(decidedIn),
    };
  }

  /** The statements of ingest's chores. */
  choresOf(program: Program, machine: Machine): Queries {
    const { write } = this.#transactionsOf(program, machine);
    return {
      query: <Row extends object>(_sql: string, [from, ms]: readonly unknown[] = []) =>
        write((state) => {
          // The release is older than any time here.
          const before = state.deletionReached;
          const start = from === '-infinity' ? Number.NEGATIVE_INFINITY : Math.min(Number(from), before);
          const isAhead = before > this.now + DAY_MS;
          const deletionReached = isAhead ? this.now : Math.max(before, Math.min(this.now, start + Number(ms)));
          const row = { reached: String(deletionReached), behind_ms: Math.max(0, this.now - deletionReached) };
          return [{ ...state, deletionReached }, [row] as unknown as Row[]];
        }),
      execute: () =>
        write((state) => {
          const claims = unexpired(state.claims, this.#deletionTime);
          return [{ ...state, claims }, state.claims.size - claims.size];
        }),
    };
  }

  /** How ingests share the partitions. */
  membersOf(program: Program, machine: Machine): Members {
    const { write } = this.#transactionsOf(program, machine);
    return {
      announce: (me, seconds) => write((state) => this.#announced(state, me, seconds)),
      leave: (owner) =>
        write((state) => {
          const members = new Map(state.members);
          members.delete(owner);
          return [{ ...state, members }, undefined];
        }),
      reportStrays: () => write((state) => [{ ...state, straysSeenAt: this.now }, undefined]),
    };
  }

  checkpointsOf(program: Program, machine: Machine): Checkpoints {
    const { read, write } = this.#transactionsOf(program, machine);
    const owned = (lease: Lease, change: (state: State) => State) =>
      write((state) => {
        if (!isOwned(state, lease)) throw new LeaseLost(lease);
        return [change(state), undefined];
      }, lease.partition);
    return {
      acquire: (partition, owner, seconds) =>
        write((state) => this.#acquire(state, partition, owner, seconds), partition),
      renew: (lease, seconds, decidedNo) =>
        owned(lease, (state) => {
          if (decidedNo > (decidedIn(state)[lease.partition] ?? 0)) throw new LeaseLost(lease);
          return this.#extended(state, lease, seconds);
        }),
      release: (lease) =>
        write((state) => [isOwned(state, lease) ? this.#extended(state, lease, 0) : state, undefined], lease.partition),
      streamTime: (partition) => read((state) => state.streamTimes.get(partition) ?? 0),
      marks: (partition) =>
        read((state) => [...state.marks.values()].filter((lane) => lane.partition === partition && this.#isRead(lane))),
      recallMarks: (lease, lanes) =>
        write((state) => {
          if (!isOwned(state, lease)) throw new LeaseLost(lease);
          return this.#recalled(state, lease.partition, lanes);
        }, lease.partition),
      batches: (partition) =>
        read((state) =>
          [...state.batches.values()]
            .filter((batch) => batch.partition === partition)
            .map((batch) => batch.entry)
            .sort((one, other) => one.batch_no - other.batch_no),
        ),
      begin: (lease, batch, previousNo) => owned(lease, (state) => begun(state, lease, batch, previousNo)),
      commit: (lease, batchNo, streamTime, marks, finished) =>
        owned(lease, (state) => {
          if ((state.leases.get(lease.partition)?.lastBatchNo ?? 0) < batchNo) throw new LeaseLost(lease);
          const stored = booked(state, lease, batchNo);
          const left = [batchNo, ...finished].reduce((rest, one) => without(rest, lease, one), stored);
          return this.#committed(left, lease.partition, streamTime, marks);
        }),
      discard: (lease, batchNo) => owned(lease, (state) => without(state, lease, batchNo)),
      learn: (lease, batch, newestNo, stored) =>
        owned(lease, (state) => learned(state, lease, batch, newestNo, stored)),
      keepPartial: (lease, batchNo, stored) => owned(lease, (state) => partial(state, lease, batchNo, stored)),
      installationId: () => read(() => 'simulated'),
      unnumberedBatches: () => read(() => []),
      discardUnnumbered: (lease) => owned(lease, (state) => state),
      moveMarks: (lease, marks, lost = []) =>
        owned(lease, (state) => {
          const lostFrames = new Map(lost.map((frames) => [`${lease.partition}:${JSON.stringify(frames)}`, frames]));
          const moved = this.#committed(state, lease.partition, 0, marks);
          return { ...moved, lostFrames: new Map([...state.lostFrames, ...lostFrames]) };
        }),
      revision: (partition) => read((state) => state.revisions.get(partition)),
      reviseDone: (lease) =>
        owned(lease, (state) => {
          const revisions = new Map(state.revisions);
          if (!revisions.delete(lease.partition)) return state;
          this.hits.revisions_done++;
          return { ...state, revisions };
        }),
      salt: (day) => read(() => String(day)),
      reportProgress: () => read(() => 0),
      forgetLedger: (table, before, ageMs) =>
        write((state) => {
          const until = Math.min(before, this.#deletionTime - ageMs);
          const kept = [...state.ledger].filter(([, line]) => line.raw_table !== table || line.time_to >= until);
          return [kept.length === state.ledger.size ? state : { ...state, ledger: new Map(kept) }, undefined];
        }),
    };
  }

  #transactionsOf(program: Program, machine: Machine) {
    const caller: Caller = {
      program,
      link: machine.link,
      timeoutMs,
      unavailable: (why) => new PostgresUnavailable(new Error(why)),
    };
    return {
      read: <T>(question: (state: State) => T) => call(caller, this, () => question(this.#state)),
      write: <T>(change: (state: State) => [State, T], partition?: number) =>
        call(
          caller,
          this,
          () => {
            const [state, answer] = change(this.#state);
            this.#commit(state);
            return answer;
          },
          partition === undefined ? '' : `lease of ${partition}`,
        ),
    };
  }

  #claimed(state: State, given: readonly NewClaim[]): [State, StoredClaims] {
    const isTidied = this.scheduler.random.next() < expiryShare;
    const known = isTidied ? unexpired(state.claims, this.#deletionTime) : state.claims;
    const { claims, stored } = claimed(known, given, this.now);
    this.hits.claims += stored;
    return [claims === state.claims ? state : { ...state, claims }, { stored, open_due: [] }];
  }

  #announced(state: State, me: Member, seconds: number): [State, IngestMembership] {
    const { now } = this;
    const known = state.members.get(me.owner);
    const joinedAt = known === undefined || known.expiresAt < now ? now : Math.min(known.joinedAt, now);
    const all = new Map(state.members).set(me.owner, { ...me, joinedAt, expiresAt: now + seconds * 1_000 });
    const members = [...all.values()].filter((one) => isLive(one.expiresAt, now));
    members.sort((one, other) => one.joinedAt - other.joinedAt || (one.owner < other.owner ? -1 : 1));
    const kept = new Set([...state.leases.keys(), ...state.streamTimes.keys(), ...state.revisions.keys()]);
    for (const { partition } of state.batches.values()) kept.add(partition);
    const owned = [...kept].map((partition) => {
      const lease = state.leases.get(partition);
      return { partition, owner: lease !== undefined && isLive(lease.expiresAt, now) ? lease.owner : null };
    });
    const areStraysRecent = Math.abs(now - state.straysSeenAt) <= STRAYS_RECENT_SECONDS * 1_000;
    const given = members.map(({ owner, partitions }) => ({ owner, partitions }));
    return [
      { ...state, members: all },
      { members: given, owned, areStraysRecent },
    ];
  }

  #commit(state: State): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#commits.push(state);
    if (this.#commits.length > commitsKeptMax) this.#commits.shift();
  }

  #acquire(state: State, partition: number, owner: string, seconds: number): [State, Lease | undefined] {
    const known = state.leases.get(partition);
    if (known !== undefined && isLive(known.expiresAt, this.now) && known.owner !== owner) return [state, undefined];
    const row: LeaseRow = {
      owner,
      epoch: (known?.epoch ?? 0) + 1,
      expiresAt: this.now + seconds * 1_000,
      lastBatchNo: known?.lastBatchNo ?? 0,
    };
    const { epoch, lastBatchNo } = row;
    return [
      { ...state, leases: new Map(state.leases).set(partition, row) },
      { partition, owner, epoch, lastBatchNo },
    ];
  }

  #extended(state: State, lease: Lease, seconds: number): State {
    const row = state.leases.get(lease.partition);
    if (row === undefined) return state;
    const expiresAt = this.now + seconds * 1_000;
    return { ...state, leases: new Map(state.leases).set(lease.partition, { ...row, expiresAt }) };
  }

  #committed(state: State, partition: number, streamTime: number, marks: readonly LaneMarks[]): State {
    const all = new Map(state.marks);
    for (const lane of marks) {
      const { mark, ahead } = new FrameSet(lane.mark, lane.ahead);
      all.set(laneKey(lane.producer_id, lane), { ...lane, mark, ahead, updatedAt: this.now });
    }
    const time = Math.max(streamTime, state.streamTimes.get(partition) ?? 0);
    return { ...state, marks: all, streamTimes: new Map(state.streamTimes).set(partition, time) };
  }

  #isRead(mark: MarkRow): boolean {
    return mark.updatedAt > this.now - marksReadDays * DAY_MS;
  }

  #recalled(state: State, partition: number, lanes: readonly LaneName[]): [State, LaneMarks[]] {
    const marks = new Map(state.marks);
    const found: LaneMarks[] = [];
    for (const { producer_id, kind } of lanes) {
      const key = laneKey(producer_id, { kind, partition });
      const mark = marks.get(key);
      if (mark === undefined) continue;
      marks.set(key, { ...mark, updatedAt: this.now });
      found.push(mark);
    }
    return [found.length === 0 ? state : { ...state, marks }, found];
  }
}
