import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '#testing/property-runs.ts';
import { hasLongNumber, propertiesIn, propertiesOfEvents } from './long-numbers.ts';

test.each([
  '{"n":12345678901234567890}',
  '{"n":-12345678901234567890}',
  '[1,9007199254740993]',
  '{"n": 0.12345678901234567}',
])('%s has a number that would change', (text) => {
  expect(hasLongNumber(text)).toBe(true);
});

test('numbers that a double can hold, and digits in texts, are not cut out', () => {
  const text = JSON.stringify({
    t: 1_790_000_000_123,
    n: [1.5, -0.1, 123_456_789_012_345],
    id: '12345678901234567890',
  });
  expect(hasLongNumber(text)).toBe(false);
});

test('no number that parsing would change is overlooked', () => {
  const digits = fc.stringMatching(/^-?[1-9]\d{0,24}(\.\d{1,24})?$/);
  const plain = (text: string) => text.replace(/^-/, '').replace('.', '').replace(/^0+/, '');
  fc.assert(
    fc.property(digits, (text) => {
      if (hasLongNumber(`{"n":${text}}`)) return;
      expect(plain(text).length).toBeLessThanOrEqual(16);
      expect(Number(text)).toBe(Number(Number(text).toPrecision(15)));
    }),
    { numRuns: propertyRuns(2_000) },
  );
});

test('the properties of every event are found as they were sent, wherever they are', () => {
  const event = fc.record(
    {
      name: fc.string(),
      properties: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.constant(null), fc.string()),
    },
    { requiredKeys: ['name'] },
  );
  fc.assert(
    fc.property(fc.array(event), fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(3), (events, more, indent) => {
      const { events: _, ...others } = more;
      const text = JSON.stringify({ v: 1, batch: { ...others, body: { ...others, events } } }, null, indent);
      const found = propertiesOfEvents(text, ['batch', 'body']);
      const wanted = events.map(({ properties }) =>
        typeof properties === 'object' && properties !== null ? JSON.stringify(properties) : null,
      );
      expect(found).toEqual(wanted);
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test('a single event, a repeated name, and a name with escapes', () => {
  expect(propertiesOfEvents('{"name":"x","properties":{"a":12345678901234567890}}', [])).toEqual([
    '{"a":12345678901234567890}',
  ]);
  expect(propertiesIn('{"sent":{"properties":1,"\\u0070roperties" : { "a" : "b \\" c" } }}', ['sent'])).toBe(
    '{"a":"b \\" c"}',
  );
  expect(propertiesIn('{"properties":[1]}', [])).toBeNull();
  expect(propertiesIn('{}', ['sent'])).toBeNull();
});
