import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Encryption, KeyedHash, keyIdOf, newSecretKey, parseSecretKeys } from './encryption.ts';

const first = newSecretKey('2026');
const second = newSecretKey('2027');

test('encrypted text decrypts to the same text, but only in the same context', () => {
  const encryption = new Encryption(parseSecretKeys(first));
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
      const sealed = encryption.encrypt(text, context);
      expect(encryption.decrypt(sealed, context)).toBe(text);
      expect(() => encryption.decrypt(sealed, `${context}x`)).toThrow();
    }),
  );
});

test('a ciphertext with any changed bit is rejected', () => {
  const encryption = new Encryption(parseSecretKeys(first));
  const sealed = encryption.encrypt('secret', 'here');
  const [id, body = ''] = sealed.split('.');
  const bytes = Buffer.from(body, 'base64url');
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(() => encryption.decrypt(`${id}.${changed.toString('base64url')}`, 'here')).toThrow();
  }
});

test('a key added at the front is used for encryption, and the previous one still decrypts', () => {
  const before = new Encryption(parseSecretKeys(first));
  const after = new Encryption(parseSecretKeys(`${second},${first}`));
  const old = before.encrypt('secret', 'here');
  expect(after.decrypt(old, 'here')).toBe('secret');
  const fresh = after.encrypt('secret', 'here');
  expect([keyIdOf(old), keyIdOf(fresh)]).toEqual(['2026', '2027']);
  expect(() => before.decrypt(fresh, 'here')).toThrow('no key named 2027');
});

test('a value hashed before a rotation is found after it', () => {
  const before = new KeyedHash(parseSecretKeys(first), 'test');
  const after = new KeyedHash(parseSecretKeys(`${second},${first}`), 'test');
  const hash = before.newest('value');
  expect(after.all('value').some((one) => one.equals(hash))).toBe(true);
  expect(after.newest('value').equals(hash)).toBe(false);
  expect(new KeyedHash(parseSecretKeys(first), 'other').newest('value').equals(hash)).toBe(false);
});

test.each([
  ['', 'contains no key'],
  ['abc', 'no id before a colon'],
  [`:${randomBytes(32).toString('base64')}`, 'no id before a colon'],
  [`a b:${randomBytes(32).toString('base64')}`, 'no id before a colon'],
  [`a:${randomBytes(31).toString('base64')}`, 'not base64 of 32 bytes'],
  ['a:***', 'not base64 of 32 bytes'],
  [`${first},${first}`, 'the same id twice'],
])('SECRET_KEY %j is refused with the message that it %s', (text, reason) => {
  expect(() => parseSecretKeys(text)).toThrow(reason);
});

test('an error in SECRET_KEY does not reveal the key', () => {
  const key = randomBytes(33).toString('base64');
  expect(() => parseSecretKeys(`a:${key}`)).toThrow(
    expect.not.objectContaining({ message: expect.stringContaining(key) }),
  );
});
