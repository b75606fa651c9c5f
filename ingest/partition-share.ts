/** Which partitions an ingest takes and which it releases. All ingests decide from the same rows. */
import type { IngestMembership } from './members.ts';

export interface Share {
  /** All partitions that need an owner. */
  readonly all: readonly number[];
  /** `one`: a single ingest owns everything. */
  readonly mode: 'one' | 'shared';
  readonly take: readonly number[];
  readonly letGo: readonly number[];
}

const nothing: Share = { all: [], mode: 'shared', take: [], letGo: [] };

/**
 * Shares differ by one at most; earlier members have the larger ones. Partitions are released one at a time, so that the others
 * keep running. While ingests run with different numbers of partitions, or records are in other partitions than their ids', the
 * first member owns all: only a single process knows what is being stored in two partitions at once.
 * @param inLog partitions that the log has messages of.
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
  const target = targetOf(mode, rank, all.length, members.length);
  const owners = new Map(owned.map(({ partition, owner }) => [partition, owner]));
  const mine = all.filter((partition) => owners.get(partition) === me);
  const free = all.filter((partition) => (owners.get(partition) ?? null) === null);
  const surplus = mine.length > target ? mine.slice(target) : [];
  return {
    all,
    mode,
    take: [...mine, ...free].slice(0, target),
    letGo: mode === 'one' ? surplus : surplus.slice(-1),
  };
}

function targetOf(mode: Share['mode'], rank: number, partitions: number, members: number): number {
  if (mode === 'one') return rank === 0 ? partitions : 0;
  return Math.floor(partitions / members) + (rank < partitions % members ? 1 : 0);
}
