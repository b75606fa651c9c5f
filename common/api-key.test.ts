import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ApiKeys, apiKeyPreview, isApiKey, newApiKey } from './api-key.ts';
import { newSecretKey, parseSecretKeys } from './encryption.ts';

test('a new key is lk_ and 40 base62 characters, and is recognized as a key', () => {
  for (let n = 0; n < 1000; n++) {
    const key = newApiKey();
    expect(key).toMatch(/^lk_[0-9A-Za-z]{40}$/);
    expect(isApiKey(key)).toBe(true);
  }
});

test('a key with one changed character is rejected', () => {
  const key = newApiKey();
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 42 }), fc.constantFrom(...'0123456789abcXYZ'), (at, character) => {
      fc.pre(key[at] !== character);
      expect(isApiKey(key.slice(0, at) + character + key.slice(at + 1))).toBe(false);
    }),
  );
});

test('anything that is not a key is rejected', () => {
  for (const junk of [
    '',
    'lk_',
    `lk_${'0'.repeat(40)}`,
    `${newApiKey()} `,
    newApiKey().slice(1),
    newApiKey().toUpperCase(),
    'lk_é',
  ]) {
    expect(isApiKey(junk), junk).toBe(false);
  }
});

test('a preview does not reveal the key', () => {
  const key = newApiKey();
  expect(apiKeyPreview(key)).toHaveLength(12);
  expect(key.startsWith(apiKeyPreview(key).slice(0, 7))).toBe(true);
});

test('a stored key can be decrypted only for its own app, and is found by its hash', () => {
  const old = newSecretKey('a');
  const before = new ApiKeys(parseSecretKeys(old));
  const after = new ApiKeys(parseSecretKeys(`${newSecretKey('b')},${old}`));
  const key = newApiKey();
  const stored = before.store(key, 'app_1');
  expect(JSON.stringify(stored)).not.toContain(key);
  expect(before.show(stored.api_key_ciphertext, 'app_1')).toBe(key);
  expect(() => before.show(stored.api_key_ciphertext, 'app_2')).toThrow();
  expect(before.hash(key).equals(stored.api_key_hash)).toBe(true);
  expect(before.hash(newApiKey()).equals(stored.api_key_hash)).toBe(false);

  expect(after.show(stored.api_key_ciphertext, 'app_1')).toBe(key);
  expect(after.hashes(key).some((hash) => hash.equals(stored.api_key_hash))).toBe(true);
  expect([before, after].map((keys) => keys.isOutdated(stored.api_key_ciphertext))).toEqual([false, true]);
});
