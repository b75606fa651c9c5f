import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '#testing/any-character.ts';
import { jsonText } from './record.ts';

test('a text in a record is ASCII without line breaks, and reads back unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      const json = jsonText(text);
      return JSON.parse(json) === text && /^[\x20-\x7e]*$/.test(json);
    }),
  );
  expect(JSON.parse(jsonText('\ud800"\n\u007f'))).toBe('\ud800"\n\u007f');
});

test('characters that JSON or a line cannot contain are escaped, in ASCII', () => {
  for (const text of ['a"b', 'a\\b', 'a\nb', 'a\u007fb', 'a\u2028b', 'a\ud800b', '"', '\\']) {
    const json = jsonText(text);
    expect(JSON.parse(json)).toBe(text);
    expect(json).toMatch(/^[\x20-\x7e]*$/);
  }
});
