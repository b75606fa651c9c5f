import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type IdPrefix, isId, newId, timeOfId } from './ids.ts';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** A second, slow decoder: base32 to a UUID's 32 hex digits. */
function uuidOf(id: string): string {
  let number = 0n;
  for (const character of id.slice(4)) number = number * 32n + BigInt(alphabet.indexOf(character));
  return number.toString(16).padStart(32, '0');
}

test('an id is a UUIDv7: version 7, variant 10, and the time in its first 48 bits', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (ms) => {
      const hex = uuidOf(newId('clk', ms));
      expect(hex).toHaveLength(32);
      expect(Number.parseInt(hex.slice(0, 12), 16)).toBe(ms);
      expect(hex[12]).toBe('7');
      expect('89ab').toContain(hex[16]);
    }),
  );
});

test('ids made in the same millisecond differ', () => {
  const ids = new Set(Array.from({ length: 100_000 }, () => newId('evt', 1_700_000_000_000)));
  expect(ids.size).toBe(100_000);
});

test('an id contains its time and sorts by it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 47 }), fc.integer({ min: 1, max: 2 ** 40 }), (ms, later) => {
      const first = newId('lnk', ms);
      expect(timeOfId(first)).toBe(ms);
      expect(isId('lnk', first)).toBe(true);
      expect(first < newId('lnk', ms + later)).toBe(true);
    }),
  );
});

test.each<[IdPrefix, string]>([
  ['lnk', ''],
  ['lnk', 'lnk_'],
  ['lnk', `app_${'0'.repeat(26)}`],
  ['lnk', `lnk_${'8'.padEnd(26, '0')}`],
  ['lnk', `lnk_${'0'.repeat(25)}u`],
  ['lnk', `lnk_${'0'.repeat(25)}A`],
  ['lnk', `lnk_${'0'.repeat(27)}`],
  ['lnk', `lnk_${'0'.repeat(25)}\n`],
])('a malformed id is rejected: %s %j', (prefix, id) => {
  expect(isId(prefix, id)).toBe(false);
});
