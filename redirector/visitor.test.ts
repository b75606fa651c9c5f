import { expect, test } from 'vitest';
import { wantsJson } from '#common/redirect/visitor.ts';
import { requestOriginOf, wholeParameters } from './visitor.ts';

test.each<[string, boolean]>([
  ['application/json', true],
  ['APPLICATION/JSON', true],
  ['application/json, text/html', true],
  ['text/html, application/json', false],
  ['text/html;q=0.5, application/json', true],
  ['application/json;q=0.5, text/html', false],
  ['application/json; charset=utf-8; q=0.9, text/html; q=0.8', true],
  ['application/json;q=0', false],
  ['application/json;q=x', false],
  ['application/jsonp', false],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', false],
  ['*/*', false],
  ['', false],
])('a client that accepts %j wants JSON: %j', (accept, expected) => {
  expect(wantsJson(accept)).toBe(expected);
});

test.each([
  ['https://news.example/today?a=1#top', 'https://news.example'],
  ['https://news.example', 'https://news.example'],
  ['https://news.example:8443?a=/', 'https://news.example:8443'],
  ['https://news.example#a@b', 'https://news.example'],
  ['https://user:secret@news.example/a', 'https://news.example'],
  ['https://a@b@news.example', 'https://news.example'],
  ['http://user@news.example/', 'http://news.example'],
  ['HTTPS://News.example/a', 'HTTPS://News.example'],
  ['android-app://com.example.app/a', 'android-app://com.example.app'],
  ['https://', 'https://'],
  ['https:/news.example/', ''],
  ['/today', ''],
  ['', ''],
])('the referrer %j is recorded as %j', (referrer, origin) => {
  expect(requestOriginOf(referrer)).toBe(origin);
});

const filling = (length: number) => `x=${'a'.repeat(length - 2)}`;

test.each([
  ['that fits', 'a=1&utm_source=mail', 'a=1&utm_source=mail'],
  ['of exactly the maximum', filling(2048), filling(2048)],
  ['with a parameter beyond the maximum', `${filling(2034)}&utm_source=mail`, filling(2034)],
  [
    'with a parameter that ends at the maximum',
    `${filling(2032)}&utm_source=mail&b=1`,
    `${filling(2032)}&utm_source=mail`,
  ],
  ['of one long parameter', filling(3000), filling(2048)],
])('a query %s is recorded in whole parameters', (_, query, recorded) => {
  expect(wholeParameters(query)).toBe(recorded);
});
