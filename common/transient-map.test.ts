import { expect, it } from 'vitest';
import { TransientMap } from './transient-map.ts';

it('contains what a Map would after the same changes, oldest first, over many replacements of its table', () => {
  const map = new TransientMap<number, string>();
  const expected = new Map<number, string>();
  const wrongAt: number[] = [];
  for (let step = 0; step < 20_000; step++) {
    map.set(step, `value ${step}`);
    expected.set(step, `value ${step}`);
    // Grows to a thousand entries, then shrinks to a few again.
    const leaving = step % 2_000 < 1_000 ? [step - 1_500] : [step - 1_500, step - 500, step - 7];
    for (const key of leaving) {
      map.delete(key);
      expected.delete(key);
    }
    if (step % 197 === 0) expect([...map.values()]).toEqual([...expected.values()]);
    if (map.size !== expected.size || map.get(step - 3) !== expected.get(step - 3)) wrongAt.push(step);
  }
  expect(wrongAt).toEqual([]);
});

it('iteration returns every entry that stays, even if others are deleted during it', () => {
  const map = new TransientMap<number, number>();
  for (let n = 0; n < 2_000; n++) map.set(n, n);
  const seen: number[] = [];
  for (const n of map.values()) {
    seen.push(n);
    if (n % 2 === 0) map.delete(n);
  }
  expect(seen).toHaveLength(2_000);
  expect(map.size).toBe(1_000);
});
