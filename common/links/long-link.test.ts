import fc from 'fast-check';
import { expect, test } from 'vitest';
import { testApp } from '#common/testing/link-snapshots.ts';
import { propertyRuns } from '#testing/property-runs.ts';
import type { LinkedApp } from './link-snapshot.ts';
import { isLongLink, type LongLink, readLongLink, refusedOfVisitName, refusedVisitName } from './long-link.ts';

const app: LinkedApp = {
  ...testApp,
  ios: { bundle_id: 'com.example.shop', team_id: null, app_store_id: '123456789', uri_scheme: null },
  android: { package_name: 'com.example.shop', sha256_cert_fingerprints: [], uri_scheme: null },
  firebase_links: { hosts: ['www.example.com', 'm.example.com'], prefixes: ['/promo'] },
};
const page = 'https://www.example.com/p/7?color=red';

const queryOf = (given: Record<string, string>) => new URLSearchParams(given).toString();
function read(given: Record<string, string>): LongLink {
  const long = readLongLink(app, queryOf(given));
  if ('reason' in long) throw new Error(`refused: ${long.reason} ${long.detail}`);
  return long;
}

test('only a request with a link at the bare host or a prefix of the app is a long link', () => {
  for (const [path, query, expected] of [
    ['/', 'link=x', true],
    ['/', 'apn=a&link=x', true],
    ['/promo/', 'link=x', true],
    ['/promo', 'link=x', true],
    ['/other/', 'link=x', false],
    ['/', '', false],
    ['/', 'nolink=x', false],
    ['/promo/more', 'link=x', false],
  ] as const)
    expect([path, query, isLongLink(app, path, query)]).toEqual([path, query, expected]);
  expect(isLongLink(testApp, '/', 'link=x')).toBe(false);
});

test('every parameter that Firebase documented is mapped', () => {
  const { fields, ipad_url, query } = read({
    ...{ link: page, apn: 'com.example.shop', ibi: 'com.example.shop', isi: '123456789' },
    ...{ afl: 'https://m.example.com/a', ifl: 'https://m.example.com/i', ipfl: 'https://m.example.com/ipad' },
    ...{ ofl: 'https://www.example.com/desktop', amv: '12', imv: '1.2', ius: 'shop', ipbi: 'com.example.pad' },
    ...{ efr: '1', st: 'Title', sd: 'Text', si: 'https://images.example/a.png' },
    ...{ utm_source: 's', utm_medium: 'm', utm_campaign: 'c', utm_term: 't', utm_content: 'o' },
    ...{ at: '1', ct: '2', mt: '8', pt: '3', d: '1', gclid: 'Cj0', extra: 'x' },
  });
  expect(fields).toEqual({
    path: '/p/7?color=red',
    ...{ android_url: 'https://m.example.com/a', ios_url: 'https://m.example.com/i' },
    ...{ fallback_url: 'https://www.example.com/desktop', tap_page: 'off' },
    ...{ og_title: 'Title', og_description: 'Text', og_image_url: 'https://images.example/a.png' },
    ...{ utm_source: 's', utm_medium: 'm', utm_campaign: 'c', utm_term: 't', utm_content: 'o' },
    data: {
      firebase: {
        ...{ link: page, amv: '12', imv: '1.2', ius: 'shop', ipfl: 'https://m.example.com/ipad' },
        ...{ ipbi: 'com.example.pad', at: '1', ct: '2', mt: '8', pt: '3' },
      },
    },
  });
  expect([ipad_url, query]).toEqual(['https://m.example.com/ipad', 'gclid=Cj0&extra=x']);
});

test('what is not of the long link stays in the query byte for byte', () => {
  const long = readLongLink(app, `city=M%FCnchen&%6Cink=${encodeURIComponent(page)}&&flag&q=a%20b&d=1&`);
  expect('query' in long && long.query).toBe('city=M%FCnchen&&flag&q=a%20b&');
});

test('a platform without an app opens the deep link; with an app and no fallback, it opens the store', () => {
  const none = read({ link: page }).fields;
  expect([none.ios_url, none.android_url, none.fallback_url]).toEqual([page, page, page]);
  const both = read({ link: page, apn: 'com.example.shop', isi: '123456789' }).fields;
  expect([both.ios_url, both.android_url, both.fallback_url, both.tap_page]).toEqual([null, null, page, null]);
});

test('the same parameters identify the same link in any order and encoding, and different parameters a different link', () => {
  const { code } = read({ link: page, st: 'A b' });
  expect(code).toMatch(/^fdl~[0-9a-f]{32}$/);
  const same = [
    `st=A+b&link=${encodeURIComponent(page)}`,
    `link=${encodeURIComponent(page.replace('www.example.com', 'WWW.Example.com:443'))}&st=%41%20b&gclid=1&d=1`,
    `link=${encodeURIComponent(page)}&st=A%20b&link=https%3A%2F%2Felsewhere.example&afl=`,
  ];
  for (const query of same) expect(readLongLink(app, query)).toMatchObject({ code });
  expect(read({ link: page, st: 'A c' }).code).not.toBe(code);
  expect(read({ link: page, sd: 'A b' }).code).not.toBe(code);
});

test('http is changed to https, and the app still gets the original link', () => {
  const { fields } = read({ link: 'http://www.example.com/p', apn: 'com.example.shop', afl: 'http://m.example.com/' });
  expect([fields.fallback_url, fields.android_url]).toEqual(['https://www.example.com/p', 'https://m.example.com/']);
  expect(fields.data.firebase).toEqual({ link: 'http://www.example.com/p' });
});

test('a link to another host or of another app is rejected with its reason', () => {
  const cases: [Record<string, string>, string, string][] = [
    [{ link: '' }, 'no_link', 'link'],
    [{ link: 'javascript:alert(1)' }, 'bad_url', 'link'],
    [{ link: '//www.example.com/p' }, 'bad_url', 'link'],
    [{ link: 'https://www.example.com@evil.example/' }, 'bad_url', 'link'],
    [{ link: 'https://www.example.com\\@evil.example/' }, 'bad_url', 'link'],
    [{ link: 'https://evil.example/www.example.com' }, 'foreign_host', 'evil.example'],
    [{ link: 'https://www.example.com.evil.example/' }, 'foreign_host', 'www.example.com.evil.example'],
    [{ link: 'https://example.com/' }, 'foreign_host', 'example.com'],
    [{ link: 'https://www.example.com./' }, 'foreign_host', 'www.example.com.'],
    [{ link: 'https://www.ex\u0430mple.com/' }, 'foreign_host', 'www.xn--exmple-4nf.com'],
    ...['afl', 'ifl', 'ipfl', 'ofl'].map(
      (name): [Record<string, string>, string, string] =>
        [...[{ link: page, [name]: 'https://evil.example/' }, 'foreign_host', 'evil.example']] as [
          Record<string, string>,
          string,
          string,
        ],
    ),
    [{ link: page, ofl: 'intent://x' }, 'bad_url', 'ofl'],
    [{ link: page, apn: 'com.evil.app' }, 'foreign_app', 'apn com.evil.app'],
    [{ link: page, ibi: 'com.evil.app' }, 'foreign_app', 'ibi com.evil.app'],
    [{ link: page, isi: '666' }, 'foreign_app', 'isi 666'],
  ];
  for (const [given, reason, detail] of cases)
    expect([given, readLongLink(app, queryOf(given))]).toEqual([given, { reason, detail }]);
});

test('texts of any length and content fit their columns', () => {
  const { fields } = read({ link: page, st: `a\0b${'é'.repeat(400)}`, utm_source: 'x'.repeat(400), si: 'http://x/' });
  expect([fields.og_title?.length, fields.utm_source?.length, fields.og_image_url]).toEqual([300, 255, null]);
  expect(fields.og_title?.startsWith('a bé')).toBe(true);
});

test('the name under which a rejected visit is counted can be read back, and is not a code', () => {
  const refused = { reason: 'foreign_app', detail: 'apn com.evil.app' } as const;
  expect(refusedOfVisitName(refusedVisitName(refused))).toEqual(refused);
  expect(refusedVisitName({ reason: 'foreign_host', detail: 'x'.repeat(500) }).length).toBeLessThanOrEqual(190);
  expect(refusedOfVisitName('summer')).toBeUndefined();
});

test('whatever the query says, every destination is an https URL on a host that the app allows', () => {
  const names = ['link', 'afl', 'ifl', 'ipfl', 'ofl'];
  const pieces = [
    'https:',
    'http:',
    '//',
    '/',
    '\\\\',
    '@',
    ':',
    '.',
    'www.example.com',
    'evil.example',
    '%2f',
    '%40',
    '?',
    '#',
    '\t',
    '\0',
  ];
  const text = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 })), { maxLength: 8 });
  const good = fc.constant([page]);
  // Without `link`, no link is followed.
  const first = fc.tuple(fc.constant('link'), fc.oneof(good, text));
  const others = fc.array(fc.tuple(fc.constantFrom(...names), fc.oneof(good, text)), { maxLength: 5 });
  const given = fc.oneof(
    others,
    fc.tuple(first, others).map(([link, more]) => [link, ...more]),
  );
  let followed = 0;
  fc.assert(
    fc.property(given, (parameters) => {
      const query = parameters.map(([name, parts]) => `${name}=${encodeURIComponent(parts.join(''))}`).join('&');
      const long = readLongLink(app, query);
      if ('reason' in long) return;
      followed++;
      const { ios_url, android_url, fallback_url } = long.fields;
      for (const url of [ios_url, android_url, fallback_url, long.ipad_url]) {
        if (url === null) continue;
        const { protocol, hostname, username, href } = new URL(url);
        expect([protocol, hostname, username, href]).toEqual([
          'https:',
          expect.stringMatching(/^(www|m)\.example\.com$/),
          '',
          url,
        ]);
      }
    }),
    { numRuns: propertyRuns(2_000) },
  );
  expect(followed).toBeGreaterThan(10);
});
