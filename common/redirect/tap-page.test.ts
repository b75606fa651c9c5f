import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { anyCharacter } from '#testing/any-character.ts';
import { visitorDeviceOf } from './device.ts';
import { LinkPlan } from './plan.ts';
import { PAGE_BYTES_MAX, type TapPage } from './tap-page.ts';
import { tapScript } from './tap-page-assets.ts';
import { tapLanguages, tapTextsFor } from './tap-page-texts.ts';

const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const pixel =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';
const instagram =
  'Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UQ1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.0.0 Mobile Safari/537.36 Instagram 350.0.0.0 Android (34/14; 420dpi; 1080x2131; Google/google; Pixel 8; shiba; shiba; de_DE; 1)';
const desktop = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
const clickId = 'clk_01j9z3k4m5n6p7q8r9s0t1v2w3';
const app: LinkedApp = {
  ...testApp,
  tap_page: 'mobile',
  ios: { bundle_id: 'com.example.app', team_id: null, app_store_id: '123456789', uri_scheme: null },
  android: { package_name: 'com.example.app', sha256_cert_fingerprints: [], uri_scheme: null },
  fallback_url: 'https://example.com/',
};

function pageOf(link: Partial<LinkSnapshot>, userAgent: string, of: Partial<LinkedApp> = {}): TapPage | null {
  const decision = new LinkPlan({ ...app, ...of }, { ...testLink, ...link }).decide(
    visitorDeviceOf(userAgent),
    { ip: '', language: '', user_agent: userAgent },
    1,
    { countryOf: () => '' },
  );
  return decision.kind === 'redirect' ? decision.tap : null;
}

const visit = {
  clickId,
  query: '',
  user_agent: iphone,
  language: 'en',
  token: 'clk.6.abc',
  shortUrl: (host: string, code: string) => `https://${host}/${code}`,
};

test.each<[string, Partial<LinkSnapshot>, Partial<LinkedApp>, string, boolean]>([
  ['off', {}, { tap_page: 'off' }, iphone, false],
  ['iOS alone, on an iPhone', {}, { tap_page: 'ios' }, iphone, true],
  ['iOS alone, on Android', {}, { tap_page: 'ios' }, pixel, false],
  ['mobile, on Android', {}, {}, pixel, true],
  ['mobile, on a desktop', {}, {}, desktop, false],
  ['mobile, with a link that is set to off', { tap_page: 'off' }, {}, iphone, false],
  ['off, with a link that is set to mobile', { tap_page: 'mobile' }, { tap_page: 'off' }, pixel, true],
  ['mobile, with a link to a web page of its own', { ios_url: 'https://shop.example/' }, {}, iphone, false],
  [
    'mobile, with a link to a page of the App Store',
    { ios_url: 'https://apps.apple.com/app/id1?ct=a' },
    {},
    iphone,
    true,
  ],
  [
    'mobile, with a link to what looks like a store',
    { ios_url: 'https://apps.apple.com.evil.example/' },
    {},
    iphone,
    false,
  ],
  ['mobile, without an app for iOS', {}, { ios: null }, iphone, false],
  [
    'mobile, with a link that has expired',
    { expires_at: 0, expired_url: 'https://apps.apple.com/app/id1' },
    {},
    iphone,
    false,
  ],
])('the page is shown before a store if it is switched on: %s', (_, link, of, userAgent, isThere) => {
  expect(pageOf(link, userAgent, of) !== null).toBe(isThere);
});

test('nothing from a link, a visitor or a host becomes markup, an attribute or a script', () => {
  const evil = fc.oneof(
    fc.constantFrom('"><script>alert(1)</script>', "' onclick='x", '</title><h1>', '&lt;', 'javascript:alert(1)'),
    fc.string({ unit: anyCharacter, maxLength: 60 }),
  );
  const tags = (html: string) => [...html.matchAll(/<\/?[a-z!][^>]*>/gi)].map(([tag]) => tag.replace(/"[^"]*"/g, '""'));
  const texts = { og_title: 'a', og_description: 'b' };
  const pages = [texts, { ...texts, og_image_url: 'https://a.example/' }].map((link) =>
    pageOf(link, iphone)?.html(visit),
  );
  const known = new Set(pages.flatMap((html) => tags(html ?? '')));
  fc.assert(
    fc.property(evil, evil, evil, evil, evil, (og_title, og_description, image, query, language) => {
      const og_image_url = `https://a.example/${image}`;
      const html = pageOf(
        { og_title: `a${og_title}`, og_description: `b${og_description}`, og_image_url },
        iphone,
      )?.html({
        ...visit,
        query,
        language,
      });
      expect(tags(html ?? '').filter((tag) => !known.has(tag) && !/^<html/.test(tag))).toEqual([]);
      expect(html?.match(/<script/g)).toHaveLength(1);
      expect(html).toContain(`<script>${tapScript}</script>`);
    }),
  );
});

test.each([
  'http://a.example/x.png',
  'data:image/png;base64,x',
  'https://a:b@c.example/',
  `https://a.example/${'x'.repeat(600)}`,
  'x',
])('a picture at %s is left out, and a letter replaces it', (og_image_url) => {
  const page = pageOf({ og_image_url, og_title: 'élan' }, iphone);
  expect(page?.html(visit)).not.toContain('<img');
  expect(page?.html(visit)).toContain('aria-hidden="true">É</div>');
  expect(page?.policy).not.toContain('img-src');
});

test('the policy allows the picture’s own origin, our style and our script, and nothing else', () => {
  const policy = pageOf({ og_image_url: 'https://cdn.example:8443/a/b.png?c;d' }, iphone)?.policy ?? '';
  expect(policy).toMatch(
    /^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src https:\/\/cdn\.example:8443$/,
  );
});

test.each(tapLanguages)(
  'in %s the page is complete, within its maximum size, and declares its language and direction',
  (lang) => {
    for (const userAgent of [iphone, pixel, `${iphone} MicroMessenger/8.0.49`]) {
      const html =
        pageOf(
          {
            og_title: 'Шапка '.repeat(30),
            og_description: '説明文'.repeat(100),
            og_image_url: 'https://cdn.example/a.png',
          },
          userAgent,
        )?.html({ ...visit, user_agent: userAgent, language: `${lang},en;q=0.5` }) ?? '';
      expect(Buffer.byteLength(html)).toBeGreaterThan(3_000);
      expect(Buffer.byteLength(html)).toBeLessThanOrEqual(PAGE_BYTES_MAX);
      expect(html).toContain(`<html lang="${lang}" dir="${lang === 'ar' ? 'rtl' : 'ltr'}">`);
      expect(html).toContain('<img class="p" src="https://cdn.example/a.png"');
      expect(html).toContain(tapTextsFor(lang).button);
      expect(html.includes(tapTextsFor(lang).hint)).toBe(userAgent.includes('MicroMessenger'));
    }
  },
);

test('every language has all texts, and no two are the same', () => {
  expect(tapLanguages.length).toBeGreaterThanOrEqual(12);
  for (const lang of tapLanguages) {
    const { heading, button, opens, copies, hint } = tapTextsFor(lang);
    const all = [heading, button, opens.app_store, opens.play, copies, hint];
    expect(all.every((text) => text.length > 2)).toBe(true);
    expect(new Set(all).size).toBe(6);
    expect([opens.app_store.includes('App Store'), opens.play.includes('Google Play')]).toEqual([true, true]);
  }
});

test.each([
  ['', 'en'],
  ['*', 'en'],
  ['xx,yy', 'en'],
  ['de-AT', 'de'],
  ['nl,fr;q=0.8,en;q=0.9', 'en'],
  ['pt-BR,en;q=0.9', 'pt'],
  ['en;q=0.1,ja', 'ja'],
  ['zh-TW', 'zh-Hant'],
  ['zh-Hans-HK', 'zh-Hans'],
  ['zh', 'zh-Hans'],
  ['ar-EG,en', 'ar'],
  ['de;q=0', 'en'],
  ['constructor', 'en'],
])('Accept-Language %j is answered in %s', (header, lang) => {
  expect(tapTextsFor(header).lang).toBe(lang);
});

test('on iOS the button leads to the App Store, and the link with its click is ready to be copied', () => {
  const html = pageOf({}, iphone)?.html(visit);
  expect(html).toContain('href="https://apps.apple.com/app/id123456789"');
  expect(html).toContain(`data-c="https://myapp.localhost/summer?click_id=${clickId}"`);
});

test('on Android a browser gets an intent that opens the app, else the Play page with its referrer', () => {
  const html = pageOf({ utm_source: 'mail' }, pixel)?.html({ ...visit, user_agent: pixel, query: 'a=b' }) ?? '';
  const href = /href="([^"]*)"/.exec(html)?.[1]?.replaceAll('&amp;', '&') ?? '';
  expect(href).toMatch(/^intent:\/\/myapp\.localhost\/summer\?a=b#Intent;scheme=https;package=com\.example\.app;/);
  const store = new URL(decodeURIComponent(/S\.browser_fallback_url=([^;]*);end$/.exec(href)?.[1] ?? ''));
  expect(store.origin + store.pathname).toBe('https://play.google.com/store/apps/details');
  expect(store.searchParams.get('referrer')).toBe(`click_id=${clickId}&utm_source=mail`);
  expect(html).not.toContain('data-c=');
});

test('in an app’s browser on Android the button is the Play page itself', () => {
  const html = pageOf({}, instagram)?.html({ ...visit, user_agent: instagram }) ?? '';
  expect(html).toContain(
    'href="https://play.google.com/store/apps/details?id=com.example.app&amp;referrer=click_id%3D',
  );
});

test('a visitor’s query that would make the page too large is redirected without it', () => {
  const link = { ios_url: 'https://apps.apple.com/app/id1' };
  expect(pageOf(link, iphone)?.html({ ...visit, query: `a=${'"'.repeat(2_000)}` })).toBeNull();
  expect(pageOf(link, iphone)?.html({ ...visit, query: 'a=b' })).toContain('href="https://apps.apple.com/app/id1?a=b"');
});
