import { expect, test } from 'vitest';
import { RecentIds } from './recent-ids.ts';

const [one, other] = ['app_01jd0000000000000000000001', 'app_01jd0000000000000000000002'];

test('an id is known from when it is noted until it is forgotten, and only in its own app', () => {
  const recent = new RecentIds();
  expect(recent.note(one, 'e1')).toBe(false);
  expect(recent.note(one, 'e1')).toBe(true);
  expect(recent.note(other, 'e1')).toBe(false);
  recent.forget(one, 'e1');
  recent.forget(one, 'never seen');
  expect(recent.note(one, 'e1')).toBe(false);
  expect(recent.note(other, 'e1')).toBe(true);
});

test('the ids of a batch of a thousand events are all known when it is sent again', () => {
  for (let times = 0; times < 100; times++) {
    const recent = new RecentIds();
    const ids = Array.from({ length: 1_000 }, (_, n) => `order-${times}-${n}`);
    expect(ids.filter((id) => recent.note(one, id))).toEqual([]);
    expect(ids.filter((id) => !recent.note(one, id))).toEqual([]);
  }
});

test('of a hundred thousand ids none is confused with another, and nearly all of the last ten thousand are known', () => {
  const recent = new RecentIds();
  const ids = Array.from({ length: 100_000 }, (_, n) => `order-${n % 317}-${n}`);
  expect(ids.filter((id) => recent.note(one, id))).toEqual([]);
  const known = ids.slice(-10_000).filter((id) => recent.note(one, id));
  expect(known.length).toBeGreaterThan(9_900);
});
