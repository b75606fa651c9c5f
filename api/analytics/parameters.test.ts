import { expect, test } from 'vitest';
import { readFilters } from './parameters.ts';

test.each([
  ['a, b ,c', ['a', 'b', 'c']],
  ['\\ a\\ ,b\\,c,d\\-e', [' a ', 'b,c', 'd-e']],
  ['Spring\u00a0,\tfall\u2028', ['Spring\u00a0', '\tfall\u2028']],
])('only unescaped spaces around a value are removed: %j', (text, values) => {
  expect(readFilters({ campaign: text })).toEqual({ campaign: { values, isExclusion: false } });
});
