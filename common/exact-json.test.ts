import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '#testing/property-runs.ts';
import { ExactNumber, parseExact, toJson, withExactData } from './exact-json.ts';

test.each([
  '{"id":12345678901234567890}',
  '[-9007199254740993,{"a":[0.12345678901234567890123]}]',
  '{"a":"12345678901234567890","12345678901234567890":"\\"12345678901234567890"}',
  '{"a":123456789012345678901234567890e-5}',
  '{"a":1.5,"b":[true,null,"x"]}',
])('%s is read and written with every digit', (text) => {
  expect(toJson(parseExact(text))).toBe(text);
});

test('a number that a double holds stays a number, however it is written', () => {
  expect(parseExact(`[1${'0'.repeat(300)}, 0.50000000000000000000, 100000000000000000000]`)).toEqual([
    1e300, 0.5, 1e20,
  ]);
  expect(parseExact('[1e400, 1234567890123456789]')).toEqual([Infinity, new ExactNumber('1234567890123456789')]);
});

test('whatever the value, it is read as JSON.parse reads it but for digits, and written back', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.bigInt(), (value, big) => {
      const text = `[${JSON.stringify(value)},${big}]`;
      expect(JSON.parse(toJson(parseExact(text)))).toEqual(JSON.parse(text));
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('only the members named data get their digits back, at any depth', () => {
  const text =
    '{"n":12345678901234567890,"data":{"id":12345678901234567890},"links":[{"data":{"a":[1234567890123456789]}}]}';
  const value = withExactData(JSON.parse(text), text);
  expect(value).toMatchObject({ n: 12345678901234567000 });
  expect(toJson(value)).toBe(text.replace('12345678901234567890', '12345678901234567000'));
});
