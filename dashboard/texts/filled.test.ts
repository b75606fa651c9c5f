import { expect, test } from 'vitest';
import { filled } from './filled.ts';

test.each([
  ['1', '1 hour was audited'],
  [1, '1 hour was audited'],
  ['1,000', '1,000 hours were audited'],
  [0, '0 hours were audited'],
])('a text about %s has the right number', (hours, text) => {
  expect(filled('{hours} {hours|hour was|hours were} audited', { hours })).toBe(text);
});

test('a placeholder without a value is empty', () => {
  expect(filled('{a}, {b|one|many}.', { a: 'x' })).toBe('x, many.');
});
