import { expect, test } from 'vitest';
import { branchLink } from './branch-answer.ts';
import { layoutOf } from './import-columns.ts';
import { isFault, type ReadOptions } from './import-row.ts';
import { readBranchRow } from './link-reader.ts';

const url = new URL('https://example.app.link/abCdEf123');
const layout = layoutOf('branch', ['url'], {}, true);
const options: ReadOptions = {
  source: 'branch',
  layout: typeof layout === 'string' ? { columns: {}, hasHeader: false, others: {} } : layout,
  app: {
    ...{ id: 'app_1', organization_id: 'org_1', host: 'go.example.com', ignores_case: false },
    ...{ bundle_id: null, app_store_id: null, package_name: null },
  },
  hosts: ['example.app.link'],
  upgradesHttp: false,
  nowMs: Date.UTC(2026, 0, 1),
};

function read(answer: object, more: Partial<ReadOptions> = {}) {
  const link = branchLink(answer, url);
  return link === null ? null : readBranchRow([url.href], link, { ...options, ...more });
}

test('every documented field of a response is mapped to the link', () => {
  const answer = {
    channel: 'facebook',
    feature: 'onboarding',
    campaign: 'new product',
    stage: 'new user',
    tags: ['one', 'two'],
    alias: 'spring/launch',
    type: 2,
    data: {
      '~channel': 'facebook',
      '~campaign': 'new product',
      '~id': '423196192848102356',
      '~creation_source': 1,
      '~marketing': true,
      '+url': url.href,
      url: url.href,
      $one_time_use: false,
      $desktop_url: 'https://www.example.com/desktop',
      $fallback_url: 'https://www.example.com/any',
      $ios_url: 'https://www.example.com/ios',
      $deeplink_path: 'article/jan/123?ref=x',
      $marketing_title: 'Spring',
      $og_title: 'Title',
      $og_description: 'Text',
      $og_image_url: 'https://www.example.com/a.png',
      $canonical_identifier: 'article/123',
      photo_id: 50,
      custom_object: { random: 'dictionary' },
      empty: '',
    },
  };
  expect(read(answer)).toEqual({
    codes: ['abCdEf123', 'spring/launch'],
    fields: {
      path: 'article/jan/123?ref=x',
      title: 'Spring',
      tags: ['one', 'two'],
      campaign: 'new product',
      utm_source: 'facebook',
      utm_medium: 'onboarding',
      fallback_url: 'https://www.example.com/desktop',
      ios_url: 'https://www.example.com/ios',
      android_url: 'https://www.example.com/any',
      og_title: 'Title',
      og_description: 'Text',
      og_image_url: 'https://www.example.com/a.png',
      data: {
        $canonical_identifier: 'article/123',
        photo_id: 50,
        custom_object: { random: 'dictionary' },
        '~stage': 'new user',
      },
    },
    created_at: null,
    clicks_before: null,
  });
});

test('a link without destinations leads to the destinations of its app, with its alias as its only code', () => {
  const link = read({ channel: null, tags: [], alias: 'abCdEf123', type: 0, data: { user_id: '12' } });
  expect(link).toMatchObject({ codes: ['abCdEf123'], fields: { path: '/', data: { user_id: '12' } } });
  expect(Object.keys((link as { fields: object }).fields).sort()).toEqual(['data', 'path']);
});

test.each([
  ['by country', { data: { $ios_url_de: 'https://example.com/de' } }, 'targeting'],
  ['for one use, by its type', { type: 1, data: {} }, 'max_clicks'],
  ['for one use, by its data', { data: { $one_time_use: true } }, 'max_clicks'],
  ['with http', { data: { $desktop_url: 'http://example.com/' } }, 'fallback_url'],
  ['with too much data', { data: { text: 'x'.repeat(20_000) } }, 'data'],
])('a link %s is unsupported, and says so', (_, answer, field) => {
  const link = read(answer);
  expect(link && isFault(link) ? link.field : link).toBe(field);
});

test('http destinations are changed to https if requested', () => {
  const link = read({ data: { $desktop_url: 'http://example.com/' } }, { upgradesHttp: true });
  expect(link).toMatchObject({ fields: { fallback_url: 'https://example.com/' } });
});

test('a response without data contains no link', () => {
  for (const answer of [null, [], 'x', {}, { data: [] }, { error: { message: 'no' } }])
    expect(branchLink(answer, url)).toBeNull();
});

test('an alias with a comma is one code', () => {
  const link = read({ alias: 'spring,summer', data: { $fallback_url: 'https://www.example.com/' } });
  expect(link).toMatchObject({ field: 'other_codes', reason: 'bad_code' });
});
