import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { IdFilter } from './id-filter.ts';

const firstMs = 500_000 * HOUR_MS + HOUR_MS / 2;

test('the filter keeps an id for 30 hours, and reports since when its ids are complete', () => {
  const filter = new IdFilter();
  filter.add('app', 'a', firstMs);
  filter.add('app', 'b', firstMs + 30 * HOUR_MS);
  expect(['a', 'b', 'c'].map((id) => filter.mayHave('app', id))).toEqual([true, true, false]);
  expect(filter.mayHave('another', 'a')).toBe(false);
  expect(filter.keptFromMs).toBeLessThanOrEqual(firstMs);
  filter.add('app', 'c', firstMs + 31 * HOUR_MS);
  expect(['a', 'b', 'c'].map((id) => filter.mayHave('app', id))).toEqual([false, true, true]);
  expect(filter.keptFromMs).toBeGreaterThan(firstMs);
});

test('ids older than the retention of the filter are not added', () => {
  const filter = new IdFilter();
  filter.add('app', 'new', firstMs);
  filter.add('app', 'old', firstMs - 31 * HOUR_MS);
  expect(['new', 'old'].map((id) => filter.mayHave('app', id))).toEqual([true, false]);
});
