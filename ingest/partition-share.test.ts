import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { IngestMembership } from './members.ts';
import { shareOf } from './partition-share.ts';

/** Ingest processes that poll and act one after another, in any order, until nothing changes. */
class Cluster {
  readonly owners = new Map<number, string>();
  members: { owner: string; partitions: number }[] = [];
  areStraysRecent = false;

  get membership(): IngestMembership {
    const owned = [...this.owners].map(([partition, owner]) => ({ partition, owner: owner === '' ? null : owner }));
    return { members: this.members, owned, areStraysRecent: this.areStraysRecent };
  }

  /** @returns the number of rounds. */
  settle(): number {
    for (let rounds = 1; rounds <= 200; rounds++) {
      const before = JSON.stringify([...this.owners].sort());
      for (const { owner } of this.members) {
        const share = shareOf(owner, this.membership, [], false);
        for (const partition of share.letGo) this.owners.set(partition, '');
        for (const partition of share.take) {
          if ((this.owners.get(partition) || owner) === owner && !share.letGo.includes(partition))
            this.owners.set(partition, owner);
        }
      }
      if (JSON.stringify([...this.owners].sort()) === before) return rounds;
    }
    throw new Error('the partitions do not come to rest');
  }

  die(owner: string): void {
    this.members = this.members.filter((member) => member.owner !== owner);
    for (const [partition, by] of this.owners) if (by === owner) this.owners.set(partition, '');
  }

  counts(): number[] {
    return this.members.map(({ owner }) => [...this.owners.values()].filter((by) => by === owner).length);
  }
}

test('however ingest processes join and die, every partition has one owner and shares differ by at most one', () => {
  const step = fc.oneof(fc.constant('join'), fc.nat(5));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 16 }), fc.array(step, { maxLength: 12 }), (partitions, steps) => {
      const cluster = new Cluster();
      cluster.members = [{ owner: 'first', partitions }];
      cluster.settle();
      for (const [at, what] of steps.entries()) {
        if (what === 'join') cluster.members.push({ owner: `m${at}`, partitions });
        else if (cluster.members.length > 1)
          cluster.die(cluster.members[Number(what) % cluster.members.length]?.owner ?? '');
        cluster.settle();
        const counts = cluster.counts();
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(partitions);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test('when another ingest process joins, partitions stay with their owners as far as shares allow', () => {
  const cluster = new Cluster();
  cluster.members = [{ owner: 'a', partitions: 4 }];
  cluster.settle();
  cluster.members.push({ owner: 'b', partitions: 4 });
  cluster.settle();
  expect([...cluster.owners].sort()).toEqual([
    [0, 'a'],
    [1, 'a'],
    [2, 'b'],
    [3, 'b'],
  ]);
});

test('a partition beyond LOG_PARTITIONS that Postgres, the log or ClickHouse knows is owned too', () => {
  const membership = { members: [{ owner: 'a', partitions: 1 }], owned: [{ partition: 3, owner: null }] };
  const share = shareOf('a', { ...membership, areStraysRecent: false }, [2], false);
  expect(share.take).toEqual([0, 2, 3]);
});

test('after LOG_PARTITIONS was lowered, the partitions that still get records are shared evenly, and so are the others', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 4 }),
      (before, after, ingests) => {
        const cluster = new Cluster();
        cluster.members = Array.from({ length: ingests }, (_, at) => ({ owner: `m${at}`, partitions: before }));
        cluster.settle();
        for (const member of cluster.members) member.partitions = after;
        cluster.settle();
        const all = [...cluster.owners];
        for (const some of [all, all.filter(([p]) => p < after), all.filter(([p]) => p >= after)]) {
          const counts = cluster.members.map(({ owner }) => some.filter(([, by]) => by === owner).length);
          expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        }
      },
    ),
  );
});

test('with different LOG_PARTITIONS, or records in other partitions than their ids’, the first ingest process owns all partitions', () => {
  const cluster = new Cluster();
  cluster.members = [
    { owner: 'a', partitions: 4 },
    { owner: 'b', partitions: 4 },
  ];
  cluster.settle();
  expect(cluster.counts()).toEqual([2, 2]);
  cluster.areStraysRecent = true;
  cluster.settle();
  expect(cluster.counts()).toEqual([4, 0]);
  cluster.areStraysRecent = false;
  cluster.settle();
  expect(cluster.counts()).toEqual([2, 2]);
  cluster.members.push({ owner: 'c', partitions: 8 });
  cluster.settle();
  expect(cluster.counts()).toEqual([8, 0, 0]);
});

test('an ingest process whose heartbeat expired takes nothing', () => {
  const membership = { members: [], owned: [{ partition: 0, owner: null }], areStraysRecent: false };
  expect(shareOf('a', membership, [], false).take).toEqual([]);
});

test('a process knows how many partitions are its share, also while others still own them', () => {
  const members = ['a', 'b'].map((owner) => ({ owner, partitions: 3 }));
  const owned = [0, 1, 2].map((partition) => ({ partition, owner: 'gone' }));
  const membership = { members, owned, areStraysRecent: false };
  expect(['a', 'b', 'c'].map((me) => shareOf(me, membership, [], false).target)).toEqual([2, 1, null]);
  expect(['a', 'b'].map((me) => shareOf(me, membership, [], true).target)).toEqual([3, 0]);
});
