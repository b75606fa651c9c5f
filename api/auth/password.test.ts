import { randomBytes, scryptSync } from 'node:crypto';
import { hash } from '@node-rs/argon2';
import { expect, test, vi } from 'vitest';
import { hashLinkPassword, isLinkPassword } from '#common/links/link-password.ts';
import { hashPassword, PasswordCheck, verifyPassword } from './password.ts';

test('a password is stored as argon2id with the memory, passes and lanes that OWASP recommends', async () => {
  const phc = await hashPassword('correct horse');
  expect(phc).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(phc).not.toContain('correct horse');
  expect(await hashPassword('correct horse')).not.toBe(phc);
  expect(await verifyPassword(phc, 'correct horse')).toBe(true);
  expect(await verifyPassword(phc, 'correct horsf')).toBe(false);
});

/** As systems and keyboards write the same password. */
const alike: [string, string][] = [
  ['Zürich am Morgen', 'Zu\u0308rich am Morgen'],
  ['１２３ ｆｕｌｌ width', '123 full width'],
  ['oﬃce \u2126 42', 'office \u03a9 42'],
  ['한글 암호 열두자', '한글 암호 열두자'.normalize('NFD')],
  ['no\u00a0break space', 'no break space'],
];

test.each(alike)('%j and %j are one password, of accounts, shared pages and links', async (one, other) => {
  for (const [set, typed] of [
    [one, other],
    [other, one],
  ] as const) {
    expect(await verifyPassword(await hashPassword(set), typed)).toBe(true);
    expect(await isLinkPassword(await hashLinkPassword(set), typed)).toBe(true);
  }
  expect(await verifyPassword(await hashPassword(one), `${other}!`)).toBe(false);
});

test.each(alike.flat())('a hash of %j from before passwords were normalized still opens', async (password) => {
  expect(await verifyPassword(await hash(password, { memoryCost: 19_456, timeCost: 2 }), password)).toBe(true);
  const salt = randomBytes(16);
  const key = scryptSync(password.normalize('NFC'), salt, 32, { N: 2 ** 14, maxmem: 2 ** 27 });
  const before = ['scrypt', 14, salt.toString('base64url'), key.toString('base64url')].join('$');
  expect(await isLinkPassword(before, password)).toBe(true);
});

test('text that is not a hash is a wrong password, not a crash', async () => {
  expect(await verifyPassword('', 'x')).toBe(false);
  expect(await verifyPassword('plain', 'plain')).toBe(false);
});

test('no password is accepted for an account that does not exist or has no password', async () => {
  const check = new PasswordCheck();
  expect(await check.check(null, '', '192.0.2.1')).toBe('wrong');
  expect(await check.check(await hashPassword('open sesame'), 'open sesame', '192.0.2.1')).toBe('right');
});

test('with two checks running and a full queue, the next login gets Retry-After, and the queue empties again', async () => {
  const check = new PasswordCheck({ runningMax: 2, perKeyMax: 2, waitingMax: 3, keysMax: 2 });
  const verdicts = await Promise.all(Array.from({ length: 9 }, () => check.check(null, 'x', '192.0.2.1')));
  expect(verdicts.filter((verdict) => verdict === 'busy')).toHaveLength(4);
  expect(verdicts.filter((verdict) => verdict === 'wrong')).toHaveLength(5);
  expect(await check.check(null, 'x', '192.0.2.1')).toBe('wrong');
});

test('however many passwords one IPv6 /48 sends, another address waits for at most one of them', async () => {
  const started: string[] = [];
  const finish: (() => void)[] = [];
  const verify = (_phc: string, password: string) =>
    new Promise<boolean>((resolve) => {
      started.push(password);
      finish.push(() => resolve(false));
    });
  const check = new PasswordCheck({ runningMax: 2, perKeyMax: 1, waitingMax: 4, keysMax: 16 }, verify);
  const logins = Array.from({ length: 500 }, (_, n) => check.check(null, 'flood', `2001:db8:1:${n.toString(16)}::1`));
  logins.push(check.check(null, 'first', '2001:db8:2::1'), check.check(null, 'second', '198.51.100.7'));
  for (let n = 0; n < 7; n++) {
    await vi.waitFor(() => expect(finish.length).toBeGreaterThan(n));
    finish[n]?.();
  }
  const verdicts = await Promise.all(logins);
  expect(verdicts.filter((verdict) => verdict === 'busy')).toHaveLength(495);
  expect(started.slice(0, 4)).toEqual(['flood', 'first', 'flood', 'second']);
});

test('the event loop is not blocked while passwords are hashed', async () => {
  const check = new PasswordCheck();
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await Promise.all([
    check.check(null, 'a', '::1'),
    check.check(null, 'b', '::2'),
    check.check(null, 'c', '192.0.2.1'),
  ]);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(5);
});
