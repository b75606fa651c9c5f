import fc from 'fast-check';
import { expect, test } from 'vitest';
import { addDecimals, decimalText, scaled } from './decimal.ts';

test.each([
  ['0', 0n],
  ['12.5', 12_500_000_000n],
  ['-12.5', -12_500_000_000n],
  ['-0.000000001', -1n],
  ['12345678901234567890123456789.123456789', 12345678901234567890123456789123456789n],
])('%s is %d billionths', (text, value) => {
  expect(scaled(text)).toBe(value);
  expect(decimalText(value)).toBe(text);
});

test('a sum of decimals is exact', () => {
  const amount = fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n });
  fc.assert(
    fc.property(amount, amount, (a, b) => {
      expect(scaled(decimalText(a))).toBe(a);
      expect(addDecimals(decimalText(a), decimalText(b))).toBe(decimalText(a + b));
    }),
  );
});
