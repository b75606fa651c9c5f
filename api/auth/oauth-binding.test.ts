import { expect, test } from 'vitest';
import { isOwnPage, newBinding } from './oauth-binding.ts';

const publicOrigin = 'https://links.example';
const isOwn = (headers: Record<string, string>, ours = publicOrigin) =>
  isOwnPage((name) => ({ host: 'api.internal:8443', ...headers })[name] ?? '', ours);

test.each<[string, Record<string, string>]>([
  ['of this origin', { 'sec-fetch-site': 'same-origin' }],
  ['of the public origin, in an old browser', { origin: publicOrigin }],
  ['of the host of the request, in an old browser', { origin: 'https://api.internal:8443' }],
  ['of a host with capitals', { origin: 'https://api.internal', host: 'API.internal' }],
])('a login that a page %s starts is bound to its browser', (_, headers) => {
  expect(isOwn(headers)).toBe(true);
  expect(newBinding(undefined, isOwn(headers)).cookie).not.toBeNull();
});

test.each<[string, Record<string, string>]>([
  ['of another site', { 'sec-fetch-site': 'cross-site', origin: publicOrigin }],
  ['of another host of the site', { 'sec-fetch-site': 'same-site', origin: publicOrigin }],
  ['of another site, in an old browser', { origin: 'https://evil.example' }],
  ['of another port, in an old browser', { origin: 'https://api.internal' }],
  ['of a host that begins like this one', { origin: `${publicOrigin}.evil.example` }],
  ['without an origin', { origin: 'null' }],
  ['in no browser', {}],
])('a page %s is none of this origin', (_, headers) => {
  expect(isOwn(headers)).toBe(false);
  expect(newBinding(undefined, isOwn(headers))).toEqual({ hash: null, cookie: null });
});

test('without a public address, no origin is taken for it', () => {
  for (const origin of ['', 'null']) expect(isOwn({ origin }, '')).toBe(false);
});
