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

const invite = (organization: string, language: (typeof mailLanguages)[number] = 'en') =>
  mailText({
    kind: 'invitation',
    language,
    url: 'https://l.example/i#t',
    organization,
    inviter: 'ada@b.example',
    role: 'member',
  });

test.each([
  'Payroll: confirm at https://evil.example/login now',
  'Visit evil.example',
  'www.evil',
  'evil。example',
  'ｅｖｉｌ．ｅｘａｍｐｌｅ',
  'mail boss@evil.example',
  'mail boss＠evil',
  '=?utf-8?B?WW91ciBhY2NvdW50?=',
  'a=?b',
  'evil\u200b.\u2060example',
])('a name like %j, which a mail program would make a link of or decode, is in no mail', (organization) => {
  for (const language of mailLanguages) {
    const { subject, text } = invite(organization, language);
    expect(subject).toContain('Signpost');
    expect(`${subject}\n${text.replace('https://l.example/i#t', '')}`).not.toMatch(/evil|=\?|Payroll/);
  }
});

test('marks that turn the direction of text, or hide in it, are removed from names', () => {
  const { subject, text } = invite('Ac\u202eme\u2066 \u200fInc\u2069\u00ad');
  expect(subject).toBe('Invitation to Acme Inc');
  expect(text).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200e\u200f\u00ad]/);
});

test.each(['Acme Inc.', 'J. R. Ewing & Co', 'Müller-Söhne', 'می‌خواهم', '3.5 Ltd', 'Who? What!'])(
  'the ordinary name %s is in the subject and the text',
  (name) => {
    expect(invite(name).subject).toBe(`Invitation to ${name}`);
    expect(invite(name).text).toContain(`“${name}”`);
  },
);

test.each([
  'Your account is locked. Confirm it at https://evil.example/login within 24 hours.\n\nx@v.example',
  'a@b.example\nBcc: evil@v.example',
  'evil.example/login@v.example',
  'evil',
  'a\u202e@evil.example',
])('an inviter whose address of before is %j is not named', (inviter) => {
  for (const language of mailLanguages) {
    const url = 'https://l.example/i#t';
    const { subject, text } = mailText({
      kind: 'invitation',
      language,
      url,
      organization: 'Acme',
      inviter,
      role: 'member',
    });
    expect(`${subject}\n${text}`).not.toMatch(/evil|locked|Bcc/);
    expect(text).toContain('Acme');
  }
});
