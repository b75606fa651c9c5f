import { expect, test } from 'vitest';
import { SyncRing } from './sync-ring.ts';

/** Bytes that identify their group. */
function group(n: number, bytes: number): Buffer {
  return Buffer.alloc(bytes, n);
}

function kept(groups: SyncRing): [number | undefined, number][] {
  return groups.bytes.map((bytes) => {
    expect(bytes.equals(group(bytes[0] ?? 0, bytes.length))).toBe(true);
    return [bytes[0], bytes.length];
  });
}

test('unsynced bytes are returned as written, oldest first, even if the buffer they came from is reused', () => {
  const groups = new SyncRing();
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

test('over many rounds only the oldest groups are dropped, and none is damaged by a later one', () => {
  const groups = new SyncRing();
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

test('waiters for a sync are notified once of its outcome', () => {
  const groups = new SyncRing();
  const heard: string[] = [];
  const waiter = (name: string) => ({
    committed: () => heard.push(`${name} committed`),
    refused: () => heard.push(`${name} refused`),
  });
  groups.add(group(1, 10), [waiter('a'), waiter('b')]);
  const { seq } = groups;
  groups.add(group(2, 10), [waiter('c')]);
  groups.settle(seq, true);
  groups.settle(groups.seq, false);
  groups.settle(groups.seq, true);
  expect(heard).toEqual(['a committed', 'b committed', 'c refused']);
});

test('nothing of a producer that was given up is written again, and its waiters are refused once a sync has failed', () => {
  const groups = new SyncRing();
  const heard: string[] = [];
  const waiter = (name: string) => ({
    committed: () => heard.push(`${name} committed`),
    refused: () => heard.push(`${name} refused`),
  });
  groups.add(group(1, 10), [waiter('a')]);
  const { seq } = groups;
  groups.add(group(2, 10), [waiter('b')]);
  groups.giveUp();
  groups.add(group(3, 10), [waiter('c')]);
  expect(kept(groups)).toEqual([[3, 10]]);
  groups.settle(seq, true);
  groups.refuseGivenUp();
  expect(heard).toEqual(['a committed', 'b refused']);
  groups.settle(groups.seq, true);
  expect(heard).toEqual(['a committed', 'b refused', 'c committed']);
});
