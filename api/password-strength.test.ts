import { expect, test } from 'vitest';
import { passwordRule } from './password-strength.ts';

const rule = await passwordRule();
const hints = ['ada.lovelace@example.com', 'Ada Lovelace', 'Analytical Engines'];

test.each([
  ['', 'must have 12'],
  ['short', 'must have 12'],
  ['eleven chars'.slice(0, 11), 'must have 12'],
  ['x'.repeat(1025), 'must have 12 to 1024'],
  ['password1234', 'easy to guess'],
  ['123456789012', 'easy to guess'],
  ['qwertyuiop123', 'easy to guess'],
  ['aaaaaaaaaaaaaaaaaaaa', 'easy to guess'],
  ['Signpost1234', 'easy to guess'],
  ['lovelace1234', 'easy to guess'],
  ['ada.lovelace@example.com', 'easy to guess'],
])('the password %j is rejected: %s', (password, reason) => {
  expect(rule(password, hints)).toContain(reason);
});

test.each(['correct horse battery staple', 'horse-lamp-river', 'Kx9!vbqLw2#t', 'äußerst günstige Übernachtung'])(
  'the password %j is accepted',
  (password) => {
    expect(rule(password, hints)).toBeNull();
  },
);

test('checking a password of the maximum length takes little CPU time', () => {
  for (const unit of ['ab', 'password']) {
    const before = process.cpuUsage();
    rule(unit.repeat(1024).slice(0, 1024));
    expect(process.cpuUsage(before).user).toBeLessThan(3_000_000);
  }
}, 30_000);
