import { expect, test } from 'vitest';
import { isPlainDate, isStorableTime } from './storable-time.ts';

test.each([
  ['2026-01-31T09:00Z', true],
  ['2026-01-31T09:00:00.123456+05:45', true],
  ['1970-01-01T00:00:00Z', true],
  ['1969-12-31T23:59:59Z', false],
  ['9999-12-31T23:59:59Z', true],
  ['9999-12-31T23:59:59-00:01', false],
  ['2026-01-31 09:00:00Z', false],
  // Read as local times of this machine.
  ['2026-01-31T09:00:00', false],
  ['1/2/2026', false],
  ['Nov2026', false],
  // Read as the first day.
  ['2026', false],
  ['2026-01', false],
])('a time has a date, a time of day and a zone, from 1970 to 9999: %s', (text, isOne) => {
  expect(isStorableTime(text)).toBe(isOne);
});

test.each([
  ['2026-01-31', true],
  ['2028-02-29', true],
  ['2026-02-29', false],
  ['0000-01-01', false],
  ['1969-12-31', false],
  ['9999-12-31', true],
  ['2026-1-31', false],
])('a date is a day of the calendar, from 1970 on: %s', (text, isOne) => {
  expect(isPlainDate(text)).toBe(isOne);
});
