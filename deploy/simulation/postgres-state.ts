/**
 * The state of the simulated Postgres, and how the transactions of ingest change it. A state is immutable and each
 * change makes a new one, so every committed state can be kept.
 */
import type { LedgerRow } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import type { LaneMarks } from '#common/log/marks.ts';
import type { Cursor } from '#ingest/attribution/late-cursors.ts';
import {
  type BatchEntry,
  type BatchPart,
  type FrameRows,
  type Lease,
  LeaseLost,
  type LedgerLine,
  type LostFrames,
  type Revision,
} from '#ingest/checkpoints.ts';
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
  /** Of stored rows. */
  readonly ledger: ReadonlyMap<string, LedgerRow>;
  /** Frames that journals have lost. */
  readonly lostFrames: ReadonlyMap<string, LostFrames>;
  /** The deletion clock, epoch ms. */
  readonly deletionReached: number;
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
  ledger: new Map(),
  lostFrames: new Map(),
  deletionReached: 0,
};

/** A time further ahead was written by another clock. */
export function isLive(until: number, now: number): boolean {
  return until >= now && until <= now + 10 * MINUTE_MS;
}

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

/** Adds stored rows to the ledger. */
function withLines(state: State, partition: number, lines: readonly LedgerLine[]): State {
  const ledger = new Map(state.ledger);
  for (const { table, partition: month, rows, rows_again, batch_from, batch_to, time_from, time_to } of lines) {
    const batch_day = Math.floor(batch_from / DAY_MS);
    const key = `${partition}:${batch_day}:${table}:${month}`;
    const known = ledger.get(key);
    ledger.set(key, {
      partition,
      batch_day,
      raw_table: table,
      month,
      rows: (known?.rows ?? 0) + rows,
      rows_again: (known?.rows_again ?? 0) + rows_again,
      batch_from: Math.min(known?.batch_from ?? batch_from, batch_from),
      batch_to: Math.max(known?.batch_to ?? batch_to, batch_to),
      time_from: Math.min(known?.time_from ?? time_from, time_from),
      time_to: Math.max(known?.time_to ?? time_to, time_to),
    });
  }
  return { ...state, ledger };
}

/** Adds a batch to the ledger that is decided now. Late attributions belong to no frame. */
export function booked(state: State, lease: Lease, batchNo: number): State {
  const entry = state.batches.get(keyOf(lease, batchNo))?.entry;
  if (entry === undefined || entry.is_partial || entry.frames.length === 0) return state;
  const gone = entry.gone.map((line) => ({ ...line, rows: -line.rows, rows_again: -line.rows_again }));
  return withLines(withParts(state, lease, entry, entry.parts), lease.partition, gone);
}

function withParts(state: State, lease: Lease, { batch_no, is_again }: BatchEntry, parts: readonly BatchPart[]): State {
  const stored = parts.filter(({ rows }) => rows > 0);
  const lines = stored.map((part) => {
    return { ...part, rows_again: is_again ? part.rows : 0, batch_from: batch_no, batch_to: batch_no };
  });
  return withLines(state, lease.partition, lines);
}

export function learned(
  state: State,
  lease: Lease,
  entry: BatchEntry,
  newestNo: number,
  stored: readonly LedgerLine[],
): State {
  const row = state.leases.get(lease.partition);
  const isKnown = row?.lastBatchNo === lease.lastBatchNo || row?.lastBatchNo === newestNo;
  if (row === undefined || !isKnown) throw new LeaseLost(lease);
  const batch = { partition: lease.partition, entry };
  const isNew = !state.batches.has(keyOf(lease, entry.batch_no));
  return {
    ...(isNew ? withLines(state, lease.partition, stored) : state),
    leases: new Map(state.leases).set(lease.partition, { ...row, lastBatchNo: newestNo }),
    batches: new Map([[keyOf(lease, entry.batch_no), batch], ...state.batches]),
  };
}

export function without(state: State, lease: Lease, batchNo: number): State {
  const batches = new Map(state.batches);
  return batches.delete(keyOf(lease, batchNo)) ? { ...state, batches } : state;
}

export function partial(state: State, lease: Lease, batchNo: number, stored: readonly FrameRows[]): State {
  const key = keyOf(lease, batchNo);
  const batch = state.batches.get(key);
  if (batch === undefined || batch.entry.is_partial) return state;
  const entry = { ...batch.entry, is_partial: true, stored: batch.entry.is_again ? [] : stored };
  const kept = { ...state, batches: new Map(state.batches).set(key, { ...batch, entry }) };
  return entry.frames.length > 0 ? withParts(kept, lease, entry, stored) : kept;
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
