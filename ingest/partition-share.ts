/** Decides which partitions an ingest process takes and which it releases. All processes decide from the same rows. */
import type { IngestMembership } from './members.ts';

export interface Share {
  /** All partitions that need an owner. */
  readonly all: readonly number[];
  /** `one`: a single ingest process owns everything. */
  readonly mode: 'one' | 'shared';
  readonly take: readonly number[];
  readonly letGo: readonly number[];
  /** How many partitions this process owns when none has to move; null if it has sent no heartbeat. */
  readonly target: number | null;
}

const nothing: Share = { all: [], mode: 'shared', take: [], letGo: [], target: null };

/**
 * Shares differ by at most one. This also holds for the partitions that edges currently write to, taken alone:
 * partitions beyond LOG_PARTITIONS stay, and cost almost nothing. Partitions are released one at a time, so that the
 * others keep running. While ingest processes run with different numbers of partitions, or records are in partitions
 * other than those of their ids, the first member owns all: only a single process knows what is being stored in two
 * partitions at once.
 * @param inLog partitions that the log or ClickHouse knows, whether Postgres does or not.
 */
export function shareOf(
  me: string,
  membership: IngestMembership,
  inLog: readonly number[],
  areStraysHere: boolean,
): Share {
  const { members, owned, areStraysRecent } = membership;
  const rank = members.findIndex(({ owner }) => owner === me);
  if (rank === -1) return nothing;
  const count = Math.max(...members.map(({ partitions }) => partitions));
  const known = [...owned.map(({ partition }) => partition), ...inLog];
  const all = [...new Set([...Array.from({ length: count }, (_, partition) => partition), ...known])].sort(
    (a, b) => a - b,
  );
  const isAgreed = members.every(({ partitions }) => partitions === count);
  const mode = isAgreed && !areStraysRecent && !areStraysHere ? 'shared' : 'one';
  const owners = new Map(owned.map(({ partition, owner }) => [partition, owner]));
  const isMine = (partition: number) => owners.get(partition) === me;
  const isFree = (partition: number) => (owners.get(partition) ?? null) === null;
  const take: number[] = [];
  const surplus: number[] = [];
  let expected = 0;
  // The first members get the larger shares of the current partitions, the last members those of the others.
  for (const [some, place] of [
    [all.filter((partition) => partition < count), rank],
    [all.filter((partition) => partition >= count), members.length - 1 - rank],
  ] as const) {
    const target = mode === 'one' ? (rank === 0 ? some.length : 0) : shareOfPlace(place, some.length, members.length);
    expected += target;
    const mine = some.filter(isMine);
    take.push(...[...mine, ...some.filter(isFree)].slice(0, target));
    surplus.push(...mine.slice(target));
  }
  return { all, mode, take, letGo: mode === 'one' ? surplus : surplus.slice(-1), target: expected };
}

function shareOfPlace(place: number, partitions: number, members: number): number {
  return Math.floor(partitions / members) + (place < partitions % members ? 1 : 0);
}
