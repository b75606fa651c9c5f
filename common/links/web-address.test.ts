import { expect, test } from 'vitest';
import { hostOf, urlFault } from './web-address.ts';

test.each([
  'https://example.com',
  'https://example.com/a/b?c=d#e',
  'HTTPS://EXAMPLE.COM/',
  'https://bücher.example/ü',
  'https://192.0.2.1:8443/',
  'https://localhost/x',
])('%s is allowed as the destination of a link', (text) => {
  expect(urlFault(text)).toBeNull();
});

test('a URL of 8,192 characters is allowed, counted as it is sent', () => {
  for (const [text, length] of [
    ['x', 8_172],
    ['ü', 1_362],
  ] as const)
    expect(urlFault(`https://example.com/${text.repeat(length)}`)).toBeNull();
  expect(urlFault('https://example.com/ü', 26)).toBeNull();
  expect(urlFault('https://example.com/ü', 25)).toBe('is longer than 25 characters once encoded');
});

test.each([
  ['http://example.com', 'https'],
  ['ftp://example.com', 'https'],
  ['javascript:alert(1)', 'https'],
  ['data:text/html,x', 'https'],
  ['//example.com', 'absolute'],
  ['/x', 'absolute'],
  ['example.com', 'absolute'],
  ['', 'absolute'],
  ['https://', 'absolute'],
  ['https:example.com', 'host'],
  ['https:///example.com', 'host'],
  [' https://example.com', 'spaces'],
  ['https://example.com/a b', 'spaces'],
  ['ht\ttps://example.com', 'spaces'],
  ['https://example.com/\u0085', 'spaces'],
  ['https://example.com\\@evil.example', 'backslashes'],
  ['https://a@example.com', 'user name'],
  ['https://:b@example.com', 'user name'],
  [`https://example.com/${'x'.repeat(8_174)}`, 'at most'],
  [`https://example.com/${'ü'.repeat(5_500)}`, 'is longer than 8,192 characters once encoded'],
  [`https://example.com/?${'ü'.repeat(1_362)}`, 'is longer than 8,192 characters once encoded'],
  [`https://example.com/#${'😀'.repeat(681)}`, 'is longer than 8,192 characters once encoded'],
])('%j is rejected because of its %s', (text, reason) => {
  expect(urlFault(text)).toContain(reason);
});

test.each([
  ['go.example.com', 'go.example.com'],
  [' GO.Example.COM ', 'go.example.com'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['my_app.localhost', 'my_app.localhost'],
  ['localhost', null],
  ['go..example', null],
  ['.example', null],
  ['example.', null],
  ['-a.example', null],
  ['127.0.0.1', null],
  ['2130706433', null],
  ['a.b.123', null],
  ['::1', null],
  [`${'a'.repeat(64)}.example`, null],
  [`${'a.'.repeat(127)}example`, null],
  ['go.example.com:80', null],
  ['go.example.com/x', null],
  ['go.exa mple.com', null],
])('the host of %j is %j', (text, host) => {
  expect(hostOf(text)).toBe(host);
});

test.each(['\u2800.example.com', 'xn--6ii.example.com', 'go.\u2800', 'a.\u200b.example'])(
  'a host with a label that shows nothing (%j) is none',
  (text) => {
    expect(hostOf(text)).toBeNull();
  },
);
