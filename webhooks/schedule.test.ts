import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '#common/durations.ts';
import { retryDelayMs, retryDelaysMs } from './schedule.ts';

const nowMs = Date.parse('2026-01-15T09:30:00Z');

test('the schedule has nine delays, and no tenth', () => {
  const waits = Array.from({ length: 10 }, (_, n) => retryDelayMs(n + 1, '', nowMs));
  expect(waits).toEqual([...retryDelaysMs, null]);
  expect(waits.slice(0, 4)).toEqual([5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS]);
});

test.each([
  ['120', 120 * SECOND_MS],
  ['1', 5 * SECOND_MS],
  ['99999999', DAY_MS],
  ['Thu, 15 Jan 2026 09:40:00 GMT', 10 * MINUTE_MS],
  ['Thu, 15 Jan 2026 09:00:00 GMT', 5 * SECOND_MS],
  ['soon', 5 * SECOND_MS],
  ['-5', 5 * SECOND_MS],
])('Retry-After: %s only lengthens the wait, up to a day', (header, wait) => {
  expect(retryDelayMs(1, header, nowMs)).toBe(wait);
});
