import { expect, test } from 'vitest';
import { commonPattern, matchesPattern, patternOf, type ResponsePattern } from './response-pattern.ts';

const redirect = (text: string) => patternOf({ kind: 'location', url: new URL(text) });
const notFound = patternOf({ kind: 'unlearned', reason: 'unknown' });
const usualFrom = (...texts: string[]): ResponsePattern => texts.map(redirect).reduce(commonPattern);

test.each([
  ['a random value', '/?click_id=1', '/?click_id=2', 'sale', '/?click_id=3', true],
  ['the code of a constant part', '/?missing=x1', '/?missing=x2', 'missing', '/?missing=missing', true],
  ['the code in the path', '/go/x1', '/go/x2', 'sale', '/go/sale', true],
  ['a code of several segments in the path', '/go/x1/end', '/go/x2/end', 'a/b', '/go/a/b/end', true],
  ['more segments than the code has', '/go/x1/end', '/go/x2/end', 'a/b', '/go/a/b/c/end', false],
  ['the code as the name of a parameter', '/?x1', '/?x2', 'sale', '/?sale', true],
  ['the code in the fragment', '/#/x1', '/#/x2', 'sale', '/#/sale', true],
  ['the code in a part that is constant', '/home', '/home', 'sale', '/sale', false],
  ['another path', '/?t=1', '/?t=2', 'sale', '/sale?t=3', false],
  ['another constant value', '/?t=1&from=old', '/?t=2&from=old', 'sale', '/?t=3&from=new', false],
  ['another name', '/?t=1', '/?t=2', 'sale', '/?u=3', false],
  ['a further parameter', '/?t=1', '/?t=2', 'sale', '/?t=3&u=1', false],
])(
  'an answer is the usual one if all parts are equal in which made-up codes agree: %s',
  (_, one, two, code, given, is) => {
    const shop = 'https://shop.example';
    expect(matchesPattern(usualFrom(shop + one, shop + two), new URL(shop + given), code)).toBe(is);
  },
);

test('responses to made-up codes that differ in host, number of parts or kind have nothing in common', () => {
  const differs = { kind: 'differs' };
  expect(usualFrom('https://a.example/', 'https://b.example/')).toEqual(differs);
  expect(usualFrom('https://a.example/', 'https://a.example/a/b')).toEqual(differs);
  expect(usualFrom('https://a.example/', 'https://a.example/?a=1')).toEqual(differs);
  expect(commonPattern(redirect('https://a.example/'), notFound)).toEqual(differs);
  expect(commonPattern(usualFrom('https://a.example/', 'https://b.example/'), redirect('https://a.example/'))).toEqual(
    differs,
  );
  expect(commonPattern(notFound, notFound)).toEqual(notFound);
});
