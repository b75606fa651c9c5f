import fc from 'fast-check';
import { expect, test } from 'vitest';
import { apiKeyHash, apiKeyPreview, isApiKey, newApiKey } from './api-key.ts';
import { newSecretKey, parseSecretKeys } from './encryption.ts';

test('a new key is lk_ and 40 base62 characters, and is taken for a key', () => {
  for (let n = 0; n < 1000; n++) {
    const key = newApiKey();
    expect(key).toMatch(/^lk_[0-9A-Za-z]{40}$/);
    expect(isApiKey(key)).toBe(true);
  }
});

test('a key with one character changed is junk', () => {
  const key = newApiKey();
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 42 }), fc.constantFrom(...'0123456789abcXYZ'), (at, character) => {
      fc.pre(key[at] !== character);
      expect(isApiKey(key.slice(0, at) + character + key.slice(at + 1))).toBe(false);
    }),
  );
});

test('anything that is no key is junk', () => {
  for (const junk of ['', 'lk_', `lk_${'0'.repeat(40)}`, `${newApiKey()} `, newApiKey().slice(1), newApiKey().toUpperCase(), 'lk_é']) {
    expect(isApiKey(junk), junk).toBe(false);
  }
});

test('a preview does not give the key away', () => {
  const key = newApiKey();
  expect(apiKeyPreview(key)).toHaveLength(12);
  expect(key.startsWith(apiKeyPreview(key).slice(0, 7))).toBe(true);
});

test('equal keys have equal hashes, different keys different ones', () => {
  const hash = apiKeyHash(parseSecretKeys(newSecretKey('a')));
  const key = newApiKey();
  expect(hash.newest(key).equals(hash.newest(key))).toBe(true);
  expect(hash.newest(key).equals(hash.newest(newApiKey()))).toBe(false);
});
