import { expect, test } from 'vitest';
import { CountedAddresses } from './counted-addresses.ts';
import { newSecretKey, parseSecretKeys } from './encryption.ts';

const secrets = parseSecretKeys(newSecretKey('one'));
const names = new CountedAddresses(secrets);

test('an address has one name in every process with the key, and another under another key', () => {
  expect(new CountedAddresses(secrets).nameOf('192.0.2.1')).toBe(names.nameOf('192.0.2.1'));
  expect(new CountedAddresses(parseSecretKeys(newSecretKey('two'))).nameOf('192.0.2.1')).not.toBe(
    names.nameOf('192.0.2.1'),
  );
});

test('no two addresses share a name, and no name shows its address', () => {
  const addresses = Array.from({ length: 20_000 }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
  const all = addresses.map((address) => names.nameOf(address));
  expect(new Set(all).size).toBe(addresses.length);
  expect(all.every((name) => /^[\w-]{16}$/.test(name))).toBe(true);
  // Also after more addresses than fit in the cache.
  expect(names.nameOf('10.0.0.0')).toBe(all[0]);
});
