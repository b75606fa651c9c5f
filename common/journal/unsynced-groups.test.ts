import { expect, test } from 'vitest';
import { seededRandom } from '#common/seeded-random.ts';
import { UnsyncedGroups } from './unsynced-groups.ts';

/** Bytes that identify their group. */
function group(n: number, bytes: number): Buffer {
  return Buffer.alloc(bytes, n);
}

function kept(groups: UnsyncedGroups): [number | undefined, number][] {
  return groups.bytes.map((bytes) => {
    expect(bytes.equals(group(bytes[0] ?? 0, bytes.length))).toBe(true);
    return [bytes[0], bytes.length];
  });
}

test('unsynced groups are kept as they were written, oldest first, even when their buffer is used again', () => {
  const groups = new UnsyncedGroups();
  const buffer = group(1, 1_000);
  groups.add(buffer, []);
  buffer.fill(9);
  groups.add(group(2, 2_000), []);
  const { seq } = groups;
  groups.add(group(3, 500), []);
  expect(kept(groups)).toEqual([
    [1, 1_000],
    [2, 2_000],
    [3, 500],
  ]);
  groups.settle(seq, true);
  expect(kept(groups)).toEqual([[3, 500]]);
  expect(groups.isEmpty).toBe(false);
});

test('beyond the maximum only the oldest groups are dropped, and none is damaged by a later one', () => {
  const groups = new UnsyncedGroups();
  const sizes = Array.from({ length: 30 }, (_, n) => 1_000_003 + ((n * 7_919) % 5) * 700_001);
  for (const [n, bytes] of sizes.entries()) {
    groups.add(group(n % 256, bytes), []);
    const found = kept(groups);
    const wanted = sizes
      .slice(n + 1 - found.length, n + 1)
      .map((size, at) => [(n + 1 - found.length + at) % 256, size]);
    expect(found).toEqual(wanted);
    if (n > 20) expect(found.reduce((sum, [, size]) => sum + size, 0)).toBeGreaterThan(8_000_000);
  }
});

test('no group is damaged while others of any size come and are synced', () => {
  const groups = new UnsyncedGroups();
  const random = seededRandom(7);
  let wanted: { seq: number; n: number; bytes: number }[] = [];
  for (let n = 1; n <= 200; n++) {
    const bytes = n % 40 === 0 ? 1_100_000 : 1 + Math.floor(random() ** 3 * 300_000);
    groups.add(group(n % 256, bytes), []);
    wanted.push({ seq: groups.seq, n, bytes });
    if (n % 10 === 0) expect(kept(groups)).toEqual(wanted.map((one) => [one.n % 256, one.bytes]));
    if (random() < 0.6) continue;
    const synced = groups.seq - Math.floor(random() * 6);
    groups.settle(synced, true);
    wanted = wanted.filter(({ seq }) => seq > synced);
  }
});

test('a waiter is notified once of the outcome of its sync', () => {
  const groups = new UnsyncedGroups();
  const outcomes: string[] = [];
  const waiter = (name: string) => ({
    committed: () => outcomes.push(`${name} committed`),
    refused: () => outcomes.push(`${name} refused`),
  });
  groups.add(group(1, 10), [waiter('a'), waiter('b')]);
  const { seq } = groups;
  groups.add(group(2, 10), [waiter('c')]);
  groups.settle(seq, true);
  groups.settle(groups.seq, false);
  groups.settle(groups.seq, true);
  expect(outcomes).toEqual(['a committed', 'b committed', 'c refused']);
});

test('groups of an abandoned producer are not written again, and their waiters are refused once a sync fails', () => {
  const groups = new UnsyncedGroups();
  const outcomes: string[] = [];
  const waiter = (name: string) => ({
    committed: () => outcomes.push(`${name} committed`),
    refused: () => outcomes.push(`${name} refused`),
  });
  groups.add(group(1, 10), [waiter('a')]);
  const { seq } = groups;
  groups.add(group(2, 10), [waiter('b')]);
  groups.giveUp();
  groups.add(group(3, 10), [waiter('c')]);
  expect(kept(groups)).toEqual([[3, 10]]);
  groups.settle(seq, true);
  groups.refuseGivenUp();
  expect(outcomes).toEqual(['a committed', 'b refused']);
  groups.settle(groups.seq, true);
  expect(outcomes).toEqual(['a committed', 'b refused', 'c committed']);
});
