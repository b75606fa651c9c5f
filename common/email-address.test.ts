import { expect, test } from 'vitest';
import { isEmailAddress, plainEmail } from './email-address.ts';

test.each(['ada@example.com', 'Ada.L+x@Sub.Example.co', "o'neil@example.com", `${'a'.repeat(300)}@example.com`])(
  '%s is an address',
  (text) => expect(isEmailAddress(text)).toBe(true),
);

test.each([
  ...[
    '',
    'ada',
    'ada@localhost',
    'a b@example.com',
    'ada@example.com\n',
    '\ud800@example.com',
    'mi\u212ae@example.com',
  ],
  ...[
    'https://evil.example@example.com',
    'evil.example/x@example.com',
    '=?utf-8?q?x?=@example.com',
    'müller@example.com',
  ],
  ...[
    'a\u202e@example.com',
    'a\0@example.com',
    `${'a'.repeat(310)}@example.com`,
    'a..b@example.com',
    'a@b@example.com',
  ],
])('%j is no address', (text) => expect(isEmailAddress(text)).toBe(false));

test('only ASCII letters lose their case', () => {
  expect(plainEmail(' ADA@Example.COM ')).toBe('ada@example.com');
  expect(plainEmail('MI\u212aE@ſ.İ')).toBe('mi\u212ae@ſ.İ');
});
