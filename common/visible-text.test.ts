import { expect, test } from 'vitest';
import { hasGlyph } from './visible-text.ts';

test.each([
  ...['', ' ', '\t\n', '\u00a0', '\u3000', '\u2028', '\0', '\u200b\u200c\u200d', '\u2060\ufeff', '\u00ad', '\u202e'],
  ...['\u3164', '\u115f\u1160', '\uffa0', '\u2800', '\u{1d159}', '\ufe0f', '\u034f', '\u0301', '\u180e', '\u17b4'],
  ...['\u{e0041}', '\u{1bca0}', '\ue000', '\uffff', '\ud800'],
])('%j has nothing to see', (text) => {
  expect(hasGlyph(text)).toBe(false);
});

test.each(['a', '0', '-', ' a ', '日本', 'é', 'e\u0301', 'ก', '👩‍👩‍👧', '❤️', '\u200bx', 'ﷺ', '𝔸'])(
  '%j can be seen',
  (text) => {
    expect(hasGlyph(text)).toBe(true);
  },
);
