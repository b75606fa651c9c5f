import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { AccessTokens } from './access-token.ts';
import { newId } from './ids.ts';

const nowMs = 1_790_000_000_500;
const now = Math.floor(nowMs / 1000);
const old = { id: '2025', key: randomBytes(32) };
const current = { id: '2026', key: randomBytes(32) };
const user = newId('usr', nowMs);
const tokens = new AccessTokens([current, old], () => nowMs);

/** An independent signer, written from RFC 7515, so that every claim and header can be forged. */
function forge(header: object, claims: object, secret = current.key, hash = 'sha256'): string {
  const key = Buffer.from(hkdfSync('sha256', secret, 'signpost', 'access-token', 32));
  const input = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${input}.${createHmac(hash, key).update(input).digest('base64url')}`;
}
const header = { alg: 'HS256', typ: 'at+jwt', kid: '2026' };
const claims = { iss: 'signpost', aud: 'signpost-api', sub: user, iat: now, exp: now + 900 };

test('a token names its user for 900 s and not a second longer', () => {
  const token = tokens.issue(user);
  const at = (ms: number) => new AccessTokens([current], () => ms).verify(token);
  expect(at(nowMs)).toEqual({ user_id: user, issued_ms: nowMs });
  expect(at((now + 900) * 1000 - 1)?.user_id).toBe(user);
  expect(at((now + 900) * 1000)).toBeNull();
});

test('a token that was issued by a clock which was ahead is refused while it would last longer than any other', () => {
  const ahead = (ms: number) => tokens.verify(new AccessTokens([current], () => nowMs + ms).issue(user));
  expect(ahead(50_000)?.user_id).toBe(user);
  expect(ahead(800 * 86_400_000)).toBeNull();
});

test('a token of the previous key is valid until that key is removed', () => {
  const token = new AccessTokens([old], () => nowMs).issue(user);
  expect(tokens.verify(token)?.user_id).toBe(user);
  expect(new AccessTokens([current], () => nowMs).verify(token)).toBeNull();
});

test('the second signer produces what the first accepts', () => {
  expect(tokens.verify(forge(header, claims))).toEqual({ user_id: user, issued_ms: now * 1000 });
});

test.each<[string, string]>([
  ['no token', ''],
  ['garbage', 'garbage'],
  ['three dots', '..'],
  ['another key', forge(header, claims, randomBytes(32))],
  ['an unknown kid', forge({ ...header, kid: '1999' }, claims)],
  ['the kid of another key', forge({ ...header, kid: '2025' }, claims)],
  ['no kid', forge({ alg: 'HS256', typ: 'at+jwt' }, claims)],
  [
    'alg none',
    `${forge({ ...header, alg: 'none' }, claims)
      .split('.')
      .slice(0, 2)
      .join('.')}.`,
  ],
  ['alg HS512', forge({ ...header, alg: 'HS512' }, claims, current.key, 'sha512')],
  ['alg HS256 in name, HS512 in fact', forge(header, claims, current.key, 'sha512')],
  ['another typ', forge({ ...header, typ: 'JWT' }, claims)],
  ['another issuer', forge(header, { ...claims, iss: 'else' })],
  ['another audience', forge(header, { ...claims, aud: 'else' })],
  ['no issuer', forge(header, { ...claims, iss: undefined })],
  ['no audience', forge(header, { ...claims, aud: undefined })],
  ['no expiry', forge(header, { ...claims, exp: undefined })],
  ['an expiry that is text', forge(header, { ...claims, exp: 'never' })],
  ['no time of issue', forge(header, { ...claims, iat: undefined })],
  ['a time of issue that is text', forge(header, { ...claims, iat: 'now' })],
  ['a time of issue beyond all calendars', forge(header, { ...claims, iat: 1e300 })],
  ['no subject', forge(header, { ...claims, sub: undefined })],
  ['a subject that is not a user', forge(header, { ...claims, sub: newId('app', nowMs) })],
  ['expired', forge(header, { ...claims, exp: now - 1 })],
  ['an unknown critical header', forge({ ...header, crit: ['b64'], b64: false }, claims)],
  ['one extra character', `${forge(header, claims)}A`],
  ['a megabyte', 'a'.repeat(1_000_000)],
])('is rejected: %s', (_, token) => {
  expect(tokens.verify(token)).toBeNull();
});

test('changing one character never makes a token valid for another user', () => {
  const token = forge(header, claims);
  for (let at = 0; at < token.lastIndexOf('.'); at++) {
    const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
    expect(tokens.verify(changed)).toBeNull();
  }
});
