import { expect, test } from 'vitest';
import { mailLanguages, mailText } from './mail-texts.ts';

test.each(mailLanguages)('the name of an organization cannot add a line or a header to a mail in %s', (language) => {
  const { subject, text } = mailText({
    kind: 'invitation',
    language,
    url: 'https://links.example.com/invitation#token',
    organization: 'Acme\r\nBcc: everyone@example.com\u2028\n\nhttps://evil.example',
    inviter: 'ada@example.com',
    role: 'member',
  });
  expect(subject).not.toMatch(/[\r\n\u2028]/);
  expect(text.split('\n').filter((line) => /^(Bcc|https:\/\/evil)/.test(line))).toEqual([]);
  expect(text).toContain('\nhttps://links.example.com/invitation#token\n');
});
