import { expect, test } from 'vitest';
import { hasGlyph, isPlainLine, plainName } from './visible-text.ts';

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

test.each([
  ...[
    'Pay\u{e0041}pal',
    'Pay\u3164pal',
    'Pay\uffa0pal',
    'Pay\u034fpal',
    'Pay\u206apal',
    'Pay\ufff9pal',
    'Pay\u{1bca0}pal',
  ],
  ...[
    'Pay\u{1d173}pal',
    'Pay\u17b4pal',
    'Pay\u{e0100}pal',
    'Pay\u2800pal',
    'Pay\uffffpal',
    'Pay\u200bpal',
    'Pay\u202epal',
  ],
  ...['Pay\npal', 'Pay\u2028pal', 'Pay\ud800pal', 'Pay\u2066pal', 'Pay\ufeffpal'],
])('%j hides or turns text, and loses that as a name from elsewhere', (text) => {
  expect(isPlainLine(text)).toBe(false);
  expect(plainName(text).replace(' ', '')).toBe('Paypal');
});

test('a pile of marks is no line', () => {
  expect(isPlainLine(`a${'\u0301'.repeat(60)}`)).toBe(false);
});

test.each([
  'Ünïcode é',
  '👩‍👩‍👧',
  '❤️',
  '🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
  'می\u200cخواهم',
  '葛\u{e0100}城',
  'ที่นี่',
  'עִבְרִית',
  '日本',
])('%j is a line as it is, also as a name from elsewhere', (text) => {
  expect(isPlainLine(text)).toBe(true);
  expect(plainName(text)).toBe(text);
});
