import { expect, test } from 'vitest';
import { decimalOf, isConversion, keptRevenue, readRevenue } from './revenue.ts';

test.each<[unknown, string | null]>([
  ['19.99', '19.99'],
  ['-0.10', '-0.1'],
  ['+007', '7'],
  ['12345678901234567890123456789.123456789', '12345678901234567890123456789.123456789'],
  ['0.1234567891', null],
  ['1e3', null],
  ['', null],
  [19.99, '19.99'],
  [0.1 + 0.2, '0.3'],
  [1e-7, '0.0000001'],
  [-0, '0'],
  [123456789012345, '123456789012345'],
  [Number('1234567890123456.7'), null],
  [1e21, null],
  [Number.POSITIVE_INFINITY, null],
  [null, null],
])('the amount %j is the decimal %j', (value, expected) => {
  expect(decimalOf(value)).toBe(expected);
});

test('a currency must be in ISO 4217; one that was once stored stays valid', () => {
  const known = ['usd', 'EUR', 'JPY', 'XCG', 'CLF', 'XAU', 'ZWG'];
  for (const currency of known) {
    expect(readRevenue({ amount: 1, currency })).toEqual({ amount: '1', currency: currency.toUpperCase() });
  }
  for (const currency of ['ABC', 'XYZ', 'US', 'EURO', '', null, 'toS']) {
    expect(readRevenue({ amount: 1, currency })).toMatchObject({ field: 'revenue.currency' });
  }
  expect(keptRevenue({ amount: 1, currency: 'XYZ' })).toEqual({ amount: '1', currency: 'XYZ' });
});

test('a number that is sent with more than nine places is rejected like the same text, not rounded', () => {
  for (const amount of [1e-10, -4e-10, 1.5e-9, '0.0000000001']) {
    expect(readRevenue({ amount, currency: 'EUR' })).toMatchObject({ field: 'revenue.amount' });
  }
  for (const [amount, exact] of [
    [1e-7, '0.0000001'],
    [1.25e-7, '0.000000125'],
    [0.1 + 0.2, '0.3'],
    [0.1 + 0.2 - 0.3, '0'],
  ] as const) {
    expect(readRevenue({ amount, currency: 'EUR' })).toEqual({ amount: exact, currency: 'EUR' });
  }
});

test('an amount that is sent has at most 20 digits before the point, a stored one at most 29', () => {
  const [most, more] = ['9'.repeat(20), '9'.repeat(21)];
  expect(readRevenue({ amount: `-${most}.5`, currency: 'EUR' })).toEqual({ amount: `-${most}.5`, currency: 'EUR' });
  expect(readRevenue({ amount: more, currency: 'EUR' })).toMatchObject({ field: 'revenue.amount' });
  expect(keptRevenue({ amount: more, currency: 'EUR' })).toEqual({ amount: more, currency: 'EUR' });
});

test('revenue makes an event a conversion, and so does a configured name; a refund does not', () => {
  const counted = ['signup', 'purchase'];
  expect([isConversion('5', 'x', counted), isConversion('0', 'x', []), isConversion('', 'signup', counted)]).toEqual([
    ...[true, true, true],
  ]);
  expect([
    isConversion('', 'x', counted),
    isConversion('-5', 'x', []),
    isConversion('-5', 'purchase', counted),
  ]).toEqual([...[false, false, false]]);
});
