import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '#testing/any-character.ts';
import { codeOfPath, importedCodeFault, isReservedCode, lowerCode, pathOfCode } from './short-code.ts';

test.each([
  ['an ordinary code', '/summer', 'summer'],
  ['one character', '/a', 'a'],
  ['a slash', '/sale/summer', 'sale/summer'],
  ['an escaped slash is a slash', '/sale%2Fsummer', 'sale/summer'],
  ['… in lower case too', '/sale%2fsummer', 'sale/summer'],
  ['dots and tildes', '/a.b~c', 'a.b~c'],
  ['an escaped letter', '/s%75mmer', 'summer'],
  ['escaped UTF-8', '/caf%C3%A9', 'café'],
  ['bytes that were not escaped', '/café', 'café'],
  ['a combining accent is composed', '/cafe%CC%81', 'café'],
  ['emoji with a joiner', `/${encodeURIComponent('👩‍🚀')}`, '👩‍🚀'],
  ['a plus is no space, and in no code', '/a+b', null],
  ['nothing', '/', null],
  ['a percent sign, escaped', '/100%25', null],
  ['two encodings around each other', '/sale%252Fsummer', null],
  ['half an escape', '/abc%2', null],
  ['an escape that is none', '/abc%zz', null],
  ['bytes that are not UTF-8', '/abc%ff', null],
  ['a code point in more bytes than it needs', '/abc%c0%af', null],
  ['half a surrogate pair', '/abc%ed%a0%80', null],
  ['bytes that the server could not read', '/abc\ufffd', null],
  ['an escaped NUL', '/abc%00', null],
  ['an escaped line break', '/abc%0d%0ax', null],
  ['an escaped space', '/a%20b', null],
  ['a direction mark', '/abc%E2%80%AE', null],
  ['a trailing slash', '/summer/', 'summer'],
  ['a trailing slash after an imported code', '/a/b.c/', 'a/b.c'],
  ['a trailing slash after escapes', '/caf%C3%A9/', 'café'],
  ['an escaped slash at the end', '/summer%2F', null],
  ['two trailing slashes', '/summer//', null],
  ['only slashes', '//', null],
  ['a reserved name with a slash', '/robots.txt/', null],
  ['two slashes', '/a//b', null],
  ['a dot segment', '/a/../b', null],
  ['an escaped dot segment', '/a/%2e%2e/b', null],
  ['a file that phones ask for', '/.well-known/assetlinks.json', null],
  ['… in other letters', '/.WELL-KNOWN/assetlinks.json', null],
  ['… escaped', '/%2ewell-known%2Fassetlinks.json', null],
  ['a file that crawlers ask for', '/robots.txt', null],
  ['the beacon of tap pages', '/-/tap', null],
  ['190 characters', `/${'é'.repeat(190)}`, 'é'.repeat(190)],
  ['191 characters', `/${'a'.repeat(191)}`, null],
  ['190 characters of four bytes, escaped', `/${encodeURIComponent('😀'.repeat(190))}`, '😀'.repeat(190)],
])('a path is a code or not: %s', (_, path, code) => {
  expect(codeOfPath(path)).toBe(code);
});

test('an importable code is found by the path of its URL', () => {
  const character = fc.oneof(
    fc.constantFrom(...'abcXYZ019_-.~/'),
    fc.constantFrom(...'éß漢字😀عК'),
    fc.string({ unit: anyCharacter, minLength: 1, maxLength: 1 }),
  );
  const codes = fc.array(character, { minLength: 1, maxLength: 200 }).map((all) => all.join('').normalize('NFC'));
  fc.assert(
    fc.property(codes, (code) => {
      const path = pathOfCode(code.toWellFormed());
      const meant = code.endsWith('/') ? code.slice(0, -1) : code;
      expect(codeOfPath(path)).toBe(importedCodeFault(meant) === null ? meant : null);
      // As a browser would send it.
      if (importedCodeFault(code) === null) expect(new URL(`https://go.example.com${path}`).pathname).toBe(path);
    }),
    { numRuns: 100 },
  );
});

test.each(['\u200d', '\u3164\u2800', '\ufe0f'])('%j, which shows nothing, is no code', (code) => {
  expect(importedCodeFault(code)).not.toBeNull();
  expect(importedCodeFault(`a${code}`)).toBeNull();
});

test('nothing below a reserved name can be a code, in any case', () => {
  for (const code of ['healthz', 'Healthz', 'metrics/x', 'robots.txt', '.well-known', '-', 'favicon.ico'])
    expect(isReservedCode(code), code).toBe(true);
  for (const code of ['healthz2', 'x/healthz', 'well-known', '-a']) expect(isReservedCode(code), code).toBe(false);
});

test('only ASCII letters lose their case', () => {
  expect(lowerCode('ABC-É-İ')).toBe('abc-É-İ');
});
