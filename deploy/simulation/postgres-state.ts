/**
 * The state of the simulated Postgres, and how the transactions of ingest change it. A state is immutable and each
 * change makes a new one, so every committed state can be kept.
 */
import type { LaneMarks } from '#common/log/marks.ts';
import type { Cursor } from '#ingest/attribution/late-cursors.ts';
import { type BatchEntry, type Lease, LeaseLost, type Revision } from '#ingest/checkpoints.ts';
import type { Member } from '#ingest/members.ts';
import type { ClaimRows } from './simulated-claims.ts';

export interface LeaseRow {
  readonly owner: string;
  readonly epoch: number;
  readonly expiresAt: number;
  readonly lastBatchNo: number;
}

export interface MemberRow extends Member {
  readonly joinedAt: number;
  readonly expiresAt: number;
}

export interface MarkRow extends LaneMarks {
  readonly updatedAt: number;
}

export interface State {
  readonly members: ReadonlyMap<string, MemberRow>;
  readonly straysSeenAt: number;
  readonly leases: ReadonlyMap<number, LeaseRow>;
  readonly marks: ReadonlyMap<string, MarkRow>;
  readonly streamTimes: ReadonlyMap<number, number>;
  readonly batches: ReadonlyMap<string, { readonly partition: number; readonly entry: BatchEntry }>;
  readonly claims: ClaimRows;
  /** For each partition of events, up to which batches installs were processed. */
  readonly lateCursors: ReadonlyMap<number, Cursor>;
  /** Open requests of an operator, by partition. */
  readonly revisions: ReadonlyMap<number, Revision>;
}

export const nothing: State = {
  members: new Map(),
  straysSeenAt: 0,
  leases: new Map(),
  marks: new Map(),
  streamTimes: new Map(),
  batches: new Map(),
  revisions: new Map(),
  claims: new Map(),
  lateCursors: new Map(),
};
export function isOwned(state: State, lease: Lease): boolean {
  const row = state.leases.get(lease.partition);
  return row?.epoch === lease.epoch && row.owner === lease.owner;
}

function keyOf(lease: Lease, batchNo: number): string {
  return `${lease.partition}:${batchNo}`;
}

export function begun(state: State, lease: Lease, entry: BatchEntry, previousNo: number): State {
  const row = state.leases.get(lease.partition);
  const open = [...state.batches.values()].filter(
    (batch) =>
      batch.partition === lease.partition && batch.entry.batch_no !== entry.batch_no && !batch.entry.is_partial,
  );
  const isKnown = row?.lastBatchNo === previousNo || row?.lastBatchNo === entry.batch_no;
  if (row === undefined || !isKnown || open.length > 0) throw new LeaseLost(lease);
  const key = keyOf(lease, entry.batch_no);
  const leases = new Map(state.leases).set(lease.partition, { ...row, lastBatchNo: entry.batch_no });
  if (state.batches.has(key)) return { ...state, leases };
  return { ...state, leases, batches: new Map(state.batches).set(key, { partition: lease.partition, entry }) };
}

export function learned(state: State, lease: Lease, entry: BatchEntry, newestNo: number): State {
  const row = state.leases.get(lease.partition);
  const isKnown = row?.lastBatchNo === lease.lastBatchNo || row?.lastBatchNo === newestNo;
  if (row === undefined || !isKnown) throw new LeaseLost(lease);
  const batch = { partition: lease.partition, entry };
  return {
    ...state,
    leases: new Map(state.leases).set(lease.partition, { ...row, lastBatchNo: newestNo }),
    batches: new Map([[keyOf(lease, entry.batch_no), batch], ...state.batches]),
  };
}

export function without(state: State, lease: Lease, batchNo: number): State {
  const batches = new Map(state.batches);
  return batches.delete(keyOf(lease, batchNo)) ? { ...state, batches } : state;
}

export function partial(state: State, lease: Lease, batchNo: number): State {
  const key = keyOf(lease, batchNo);
  const batch = state.batches.get(key);
  if (batch === undefined) return state;
  const entry = { ...batch.entry, is_partial: true };
  return { ...state, batches: new Map(state.batches).set(key, { ...batch, entry }) };
}

/** For each partition, the number up to which all of its batches are decided. */
export function decidedIn({ leases, batches }: State): Cursor {
  const decided: Record<number, number> = {};
  for (const [partition, { lastBatchNo }] of leases) decided[partition] = lastBatchNo;
  for (const { partition, entry } of batches.values()) {
    const below = entry.is_partial ? Number.POSITIVE_INFINITY : entry.batch_no - 1;
    decided[partition] = Math.min(decided[partition] ?? 0, below);
  }
  return decided;
}
