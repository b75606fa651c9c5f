import { expect, test } from 'vitest';
import { RecentIds } from './recent-ids.ts';

test('an id is known once its batch is kept, and never because of a batch that was refused or still waits', () => {
  const recent = new RecentIds();
  const [first, second, third] = [{ isKept: false }, { isKept: false }, { isKept: false }];
  expect(recent.of('a', 2).isNew('e1', first)).toBe(true);
  expect(recent.of('a', 2).isNew('e1', first)).toBe(false);
  expect(recent.of('a', 2).isNew('e1', second)).toBe(true);
  second.isKept = true;
  expect(recent.of('a', 1).isNew('e1', third)).toBe(false);
  expect(recent.of('b', 1).isNew('e1', third)).toBe(true);
});

test('the ids of at least the last sixteen thousand events are known, and of at most twice as many', () => {
  const recent = new RecentIds();
  const batch = { isKept: true };
  for (let n = 0; n < 100_000; n += 100) {
    const ids = recent.of('a', 100);
    for (let at = n; at < n + 100; at++) ids.isNew(`e${at}`, batch);
  }
  const probe = { isKept: false };
  const known = Array.from({ length: 100_000 }, (_, n) => !recent.of('a', 0).isNew(`e${n}`, probe));
  expect(known.slice(-16_000).every(Boolean)).toBe(true);
  expect(known.slice(0, 100_000 - 32_768).some(Boolean)).toBe(false);
});
