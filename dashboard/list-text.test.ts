import fc from 'fast-check';
import { expect, test } from 'vitest';
import { listOf, listText } from './list-text.ts';

test.each<[string, string[]]>([
  ['purchase, sign_up', ['purchase', 'sign_up']],
  [' a ,, b,a,', ['a', 'b']],
  ['', []],
  ['"purchase, first", sign_up', ['purchase, first', 'sign_up']],
  ['a,"b, ""c"""', ['a', 'b, "c"']],
  ['5" screen, 6" screen', ['5" screen', '6" screen']],
  ['"a, b', ['"a', 'b']],
  ['"a" b, c', ['"a" b', 'c']],
])('%s is a list', (text, values) => {
  expect(listOf(text)).toEqual(values);
});

test('values without commas are shown as they are', () => {
  expect(listText(['purchase', 'sign up', '5" screen'])).toBe('purchase, sign up, 5" screen');
  expect(listText(['purchase, first', '"b"', ' c'])).toBe('"purchase, first", """b""", " c"');
});

test('a list that is shown and read again is the same, whatever its values contain', () => {
  const value = fc.oneof(fc.string({ minLength: 1 }), fc.stringMatching(/^[", a]{1,6}$/));
  fc.assert(
    fc.property(fc.uniqueArray(value, { maxLength: 5 }), (values) => {
      expect(listOf(listText(values))).toEqual(values);
    }),
  );
});
