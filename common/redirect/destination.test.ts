import fc from 'fast-check';
import { expect, test } from 'vitest';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { anyCharacter } from '#testing/any-character.ts';
import { propertyRuns } from '#testing/property-runs.ts';
import { destinationOf, expiredDestinationOf, locationOf } from './destination.ts';
import type { Platform } from './device.ts';

const app = {
  ...testApp,
  ios: { bundle_id: 'com.example.app', team_id: 'TEAM', app_store_id: '123', uri_scheme: 'example' },
  android: { package_name: 'com.example.app', sha256_cert_fingerprints: [], uri_scheme: 'example' },
  fallback_url: 'https://example.com/app',
};
const all = { ios_url: 'https://i.example/x', android_url: 'https://a.example/x', fallback_url: 'https://w.example/x' };
const appStore = 'https://apps.apple.com/app/id123';
const play = 'https://play.google.com/store/apps/details?id=com.example.app&referrer=click_id%3Dclk_1';
const leadsTo = (...given: Parameters<typeof destinationOf>) => destinationOf(...given)?.destination ?? null;
const none = { ios: null, android: null, fallback_url: null };

test.each<[Platform, Partial<typeof testLink>, Partial<typeof testApp>, string, string | null]>([
  ['ios', all, {}, '', 'https://i.example/x'],
  ['android', all, {}, '', 'https://a.example/x'],
  ['other', all, {}, '', 'https://w.example/x'],
  ['ios', {}, {}, 'a=1', appStore],
  ['ios', {}, { ios: { ...app.ios, app_store_id: 'id123' } }, '', appStore],
  ['ios', {}, { ios: { ...app.ios, app_store_id: '12/../3' } }, '', 'https://example.com/app'],
  ['android', {}, {}, '', play],
  ['android', {}, {}, 'a=1', play],
  ['android', { utm_source: 'a b&c' }, {}, '', `${play}%26utm_source%3Da%2520b%2526c`],
  ['android', { utm_source: 'own' }, {}, 'utm_source=given', `${play}%26utm_source%3Dgiven`],
  ['android', {}, { android: { ...app.android, package_name: 'com.x&id=evil' } }, '', 'https://example.com/app'],
  ['other', {}, {}, '', 'https://example.com/app'],
  ['ios', { fallback_url: all.fallback_url }, none, '', 'https://w.example/x'],
  ['android', { fallback_url: all.fallback_url }, none, '', 'https://w.example/x'],
  ['ios', {}, none, '', null],
  ['other', {}, none, '', null],
  ['other', { fallback_url: 'http://w.example/' }, none, '', null],
  ['other', { fallback_url: 'javascript:alert(1)' }, none, '', null],
  ['other', { fallback_url: 'no url' }, none, '', null],
  ['other', { fallback_url: 'https://w.example/\r\nSet-Cookie: a=b' }, none, '', 'https://w.example/Set-Cookie:%20a=b'],
  ['other', { fallback_url: 'https://w.example/x#part' }, {}, 'a=1', 'https://w.example/x?a=1#part'],
  [
    'other',
    { fallback_url: 'https://w.example/?a=1&b=2' },
    {},
    'b=3&b=4&c=5&c=6',
    'https://w.example/?a=1&b=2&c=5&c=6',
  ],
  ['ios', { ios_url: 'https://i.example/?k=1' }, {}, 'k=2', 'https://i.example/?k=1'],
  ['ios', { ios_url: 'https://i.example/?utm_source=own' }, {}, 'utm_source=y', 'https://i.example/?utm_source=y'],
  ['other', { ...all, utm_source: 'x' }, {}, '', 'https://w.example/x?utm_source=x'],
  [
    'other',
    { fallback_url: 'https://w.example/?utm_source=own', utm_source: 'x' },
    {},
    '',
    'https://w.example/?utm_source=own',
  ],
  ['other', { ...all, utm_source: 'x' }, {}, 'utm_source=y', 'https://w.example/x?utm_source=y'],
  ['other', { ...all, utm_source: 'x' }, {}, 'utm_source=', 'https://w.example/x?utm_source='],
  [
    'other',
    all,
    {},
    'url=https://evil.example/&//evil.example',
    'https://w.example/x?url=https://evil.example/&//evil.example',
  ],
  ['other', all, {}, '%0d%0aSet-Cookie:a=b', 'https://w.example/x?%0d%0aSet-Cookie:a=b'],
  ['other', all, {}, '%', 'https://w.example/x?%'],
  // The author's text is preserved byte for byte.
  [
    'other',
    { fallback_url: 'https://w.example/?q=caf%E9&flag&&sig=a%20b~c' },
    {},
    'fbclid=1',
    'https://w.example/?q=caf%E9&flag&&sig=a%20b~c&fbclid=1',
  ],
  [
    'other',
    { fallback_url: 'https://w.example/?q=caf%E9&utm_source=own&&flag' },
    {},
    'utm_source=y+z',
    'https://w.example/?q=caf%E9&&flag&utm_source=y+z',
  ],
  [
    'other',
    { fallback_url: 'https://w.example/?q=caf%E9&utm_medium=m', utm_source: 'x' },
    {},
    '',
    'https://w.example/?q=caf%E9&utm_medium=m&utm_source=x',
  ],
  ['other', { fallback_url: 'https://w.example/x#p', utm_source: 'x' }, {}, '', 'https://w.example/x?utm_source=x#p'],
  ['other', { fallback_url: 'https://w.example/x#p' }, {}, 'a=b', 'https://w.example/x?a=b#p'],
])('%s with link %j and app %j requested with %j leads to %s', (platform, link, changes, query, expected) => {
  const destination = leadsTo({ ...testLink, ...link }, { ...app, ...changes }, platform);
  expect(destination && locationOf(destination, query, 'clk_1')).toBe(expected);
});

test.each([
  ['https://w.example/x', 'city=M%FCnchen', '?city=M%FCnchen'],
  ['https://w.example/x', 'abc', '?abc'],
  ['https://w.example/x', 'q=a%20b', '?q=a%20b'],
  ['https://w.example/?', 'a=1', '?a=1'],
  ['https://w.example/??a=1', 'b=2', '??a=1&b=2'],
  ['https://w.example/x', '?a=1', '??a=1'],
  ['https://w.example/x', '?', '??'],
  ['https://w.example/x', '&&a=1&', '?&&a=1&'],
  ['https://w.example/x', 'a=1;b=2', '?a=1;b=2'],
  ['https://w.example/x', 'list[]=1&list[]=2', '?list[]=1&list[]=2'],
  ['https://w.example/x', 'q=%7e%2F+*!()~|^`{}\\\\', '?q=%7e%2F+*!()~|^`{}\\\\'],
  ['https://w.example/x', 'q=%E3%81&c=%', '?q=%E3%81&c=%'],
  ['https://w.example/x', 'redirect=https://e.example/?a=b', '?redirect=https://e.example/?a=b'],
  ['https://w.example/x', 'q=münchen#x', '?q=m%C3%BCnchen%23x'],
  ['https://w.example/x?a=%FC&b', 'a=2&c=%FC&b=3&d', '?a=%FC&b&c=%FC&d'],
  ['https://w.example/x?%61=1', 'a=2&%41=3', '?%61=1&%41=3'],
  ['https://w.example/x?a+b=1', 'a%20b=2&ab', '?a+b=1&ab'],
  ['https://w.example/x?a=1&', 'b', '?a=1&&b'],
  ['https://w.example/x?a=1', 'a=2', '?a=1'],
])('of the destination %s visited with ?%s, the query is %s', (fallback_url, query, expected) => {
  const destination = leadsTo({ ...testLink, fallback_url }, app, 'other');
  expect(destination && locationOf(destination, query, '')).toBe(fallback_url.split('?')[0] + expected);
});

test.each([
  ['https://w.example/?a=1&b=2', 'a=3', '?b=2&a=3'],
  ['https://w.example/?a=1&a=2&&b', 'a=%FC&b=', '?&a=%FC&b='],
  ['https://w.example/?a=1', 'b=2', '?a=1&b=2'],
  ['https://w.example/?a=1', '', '?a=1'],
  ['https://w.example/?utm_source=own&%61=1', 'a=2', '?utm_source=own&a=2'],
  ['https://w.example/?a=1#part', 'a=2', '?a=2#part'],
])('with query_merge visit, %s visited with ?%s leads to %s', (fallback_url, query, expected) => {
  const visitWins = { ...app, query_merge: 'visit' as const };
  const destination = leadsTo({ ...testLink, fallback_url }, visitWins, 'other');
  expect(destination && locationOf(destination, query, '')).toBe(`https://w.example/${expected}`);
});

test('whatever a URL may contain passes from the visitor to the destination byte for byte', () => {
  const bytes = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
  const query = bytes.map((text) => text.replaceAll(/["#'<>]/g, '%fc')).filter((text) => !text.includes('own'));
  fc.assert(
    fc.property(query, fc.constantFrom('', '?', '?own', '??own=%fc&'), (given, search) => {
      const destination = leadsTo({ ...testLink, fallback_url: `https://w.example/${search}` }, app, 'other');
      const join = search === '' || given === '' ? search || (given && '?') : search === '?' ? '?' : `${search}&`;
      expect(destination && locationOf(destination, given, '')).toBe(`https://w.example/${join}${given}`);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('without a click the Play referrer has no click id', () => {
  const destination = leadsTo({ ...testLink, utm_source: 'x' }, app, 'android');
  expect(destination && locationOf(destination, '', '')).toBe(
    'https://play.google.com/store/apps/details?id=com.example.app&referrer=utm_source%3Dx',
  );
});

test('an expired link leads to its expired_url and nowhere else', () => {
  expect(expiredDestinationOf({ ...testLink, ...all }, app)).toBeNull();
  expect(expiredDestinationOf({ ...testLink, expired_url: 'https://x.example/over' }, app)).toMatchObject({
    href: 'https://x.example/over',
  });
});

test('whatever is in the link, the app and the query, a Location is one line of ASCII, https, and the host of a field', () => {
  // Not fc.webUrl: its table of characters takes a second to build.
  const encoded = fc.string().map(encodeURIComponent);
  const text = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc
      .tuple(fc.constantFrom('http', 'https'), fc.webAuthority({ withPort: true }), encoded, encoded)
      .map(([scheme, host, path, query]) => `${scheme}://${host}/${path}?${query}`),
    fc.string().map((rest) => `https://w.example/${rest}`),
  );
  const maybe = fc.option(text);
  const link = fc
    .record({ ios_url: maybe, android_url: maybe, fallback_url: maybe, utm_source: maybe, utm_content: maybe })
    .map((some) => ({ ...testLink, ...some }));
  const some = fc.record({ id: text, name: text, url: maybe });
  const query = fc.oneof(
    encoded.map((value) => `a=${value}`),
    fc.string(),
    fc.string().map((rest) => `utm_source=${rest}`),
  );
  fc.assert(
    fc.property(
      link,
      some,
      query,
      fc.constantFrom<Platform>('ios', 'android', 'other'),
      (oneLink, { id, name, url }, oneQuery, platform) => {
        const oneApp = {
          ...testApp,
          ios: { ...app.ios, app_store_id: id },
          android: { ...app.android, package_name: name },
          fallback_url: url,
        };
        const destination = leadsTo(oneLink, oneApp, platform);
        if (destination === null) return;
        const location = locationOf(destination, oneQuery, 'clk_1');
        expect(location).toMatch(/^https:[\x21-\x7e]+$/);
        const allowed = [oneLink.ios_url, oneLink.android_url, oneLink.fallback_url, url]
          .filter((one) => one !== null && URL.canParse(one))
          .map((one) => new URL(one ?? '').host);
        expect([...allowed, 'apps.apple.com', 'play.google.com']).toContain(new URL(location).host);
      },
    ),
    { numRuns: propertyRuns(500) },
  );
});

test.each([
  ['https://w.example/x#part', 'https://w.example/x?utm_source=x#part'],
  ['https://w.example/?a=1', 'https://w.example/?a=1&utm_source=x'],
  ['https://w.example/?utm_medium=m', 'https://w.example/?utm_medium=m&utm_source=x'],
  ['https://w.example/??utm_medium=m', 'https://w.example/??utm_medium=m&utm_source=x'],
  ['https://w.example/?', 'https://w.example/?utm_source=x'],
  ['https://w.example/?#part', 'https://w.example/?utm_source=x#part'],
])(
  'the fields of a link are added to %s where its own query, or its fragment, leaves room for them',
  (fallback_url, expected) => {
    const destination = leadsTo({ ...testLink, fallback_url, utm_source: 'x' }, app, 'other');
    expect(destination && locationOf(destination, '', '')).toBe(expected);
  },
);

test.each<[Platform, Partial<typeof testLink>, Partial<typeof testApp>, string | undefined]>([
  ['ios', all, {}, 'link.ios_url'],
  ['ios', {}, {}, 'app.ios.app_store_id'],
  ['android', all, {}, 'link.android_url'],
  ['android', {}, {}, 'app.android.package_name'],
  ['ios', all, { ios: null }, 'link.ios_url'],
  ['android', { fallback_url: all.fallback_url }, { android: null }, 'link.fallback_url'],
  ['other', {}, {}, 'app.fallback_url'],
  ['other', {}, none, undefined],
])('on %s, a link with %j of an app with %j is decided by %s', (platform, link, changes, rule) => {
  expect(destinationOf({ ...testLink, ...link }, { ...app, ...changes }, platform)?.rule).toBe(rule);
});
