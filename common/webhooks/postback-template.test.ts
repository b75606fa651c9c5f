/** Postback templates: which ones are accepted, and how they are filled. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '#testing/any-character.ts';
import { asksForQuery, filled, postbackMacros, sampleUrl, templateFault } from './postback-template.ts';

const event = {
  event_id: 'e1',
  click_id: 'clk_1',
  app_id: 'app_1',
  link_id: 'lnk_1',
  name: 'pürchase & more',
  revenue_amount: '12.50',
  revenue_currency: 'EUR',
  campaign: '100% off?',
};

test.each([
  ['https://n.example/p?c={click_id}&e={event_name}', 'https://n.example/p?c=clk_1&e=p%C3%BCrchase%20%26%20more'],
  ['https://n.example/{app_id}/{link_id}?r={revenue}{currency}', 'https://n.example/app_1/lnk_1?r=12.50EUR'],
  ['https://n.example/?k={campaign}&i={event_id}', 'https://n.example/?k=100%25%20off%3F&i=e1'],
  ['https://n.example/?g={query.gclid}&m={query.missing}', 'https://n.example/?g=a%2Fb%3D%26x&m='],
])('%s becomes %s', (template, url) => {
  expect(templateFault(template)).toBeNull();
  expect(sampleUrl(template)).not.toBeNull();
  expect(filled(template, event, 'gclid=a%2Fb%3D%26x&gclid=second')).toBe(url);
});

test('an install is named install and has its own id; unknown values are empty', () => {
  const install = { install_id: 'ins_1', click_id: '' };
  expect(filled('{event_name} {event_id} {click_id} {revenue}', install, '')).toBe('install ins_1  ');
  expect(filled('{revenue}', { revenue_amount: null }, '')).toBe('');
});

test.each([
  '{unknown}',
  '{}',
  '{click_id',
  'click_id}',
  '{{click_id}}',
  '{query.}',
  '{query.a b}',
  '{constructor}',
  '{click_id}'.repeat(31),
  'x'.repeat(2_049),
])('the template %s is refused', (template) => {
  expect(templateFault(template)).not.toBeNull();
});

test.each([
  'https://{click_id}/',
  'https://{query.host}.example/',
  'https://n.example{campaign}',
  '{campaign}://n.example/',
  'https://n.example:{app_id}/',
])('no macro may be in the host: %s is refused', (template) => {
  expect(sampleUrl(template)).toBeNull();
});

test('whatever a record says, a filled template leads to the same host and path and adds no parameter', () => {
  const template = `https://n.example/p?${postbackMacros.map((name, n) => `p${n}={${name.replace('NAME', 'q')}}`).join('&')}`;
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      const record = Object.fromEntries(Object.keys(event).map((name) => [name, text]));
      const url = new URL(filled(template, record, new URLSearchParams({ q: text }).toString()));
      expect([url.origin, url.pathname, url.hash, url.username]).toEqual(['https://n.example', '/p', '', '']);
      expect([...url.searchParams.keys()]).toEqual(postbackMacros.map((_, n) => `p${n}`));
    }),
  );
});

test.each(['.', '..', '...'])('a value of dots (%s) leads to no other path', (dots) => {
  const url = filled('https://n.example/v1/{query.id}/conversion', event, `id=${dots}`);
  expect(new URL(url).pathname).toBe('/v1//conversion');
});

test('only a template with a parameter of the click requires the click’s query', () => {
  expect(asksForQuery('https://n.example/?a={query.gclid}')).toBe(true);
  expect(asksForQuery('https://n.example/?a={click_id}')).toBe(false);
});
