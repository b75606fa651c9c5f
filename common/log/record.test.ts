import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonText } from './record.ts';

test('a text in a record is ASCII without line breaks, and reads back as it was', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const json = jsonText(text);
      return JSON.parse(json) === text && /^[\x20-\x7e]*$/.test(json);
    }),
  );
  expect(JSON.parse(jsonText('\ud800"\n\u007f'))).toBe('\ud800"\n\u007f');
});
