import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { sameScreen } from './comparisons.ts';
import { languageOf } from './languages.ts';
import { decide, scoreOf } from './rules.ts';
import { isSharedAddress } from './shared-address.ts';
import { type ClickFields, clickSignals, type DeviceFields, deviceSignals } from './signals.ts';

const now = 1_800_000_000_000;
const ip = '203.0.113.9';

const agents = {
  safari17:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  safari26:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1',
  ipad: 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Safari/605.1.15',
  instagramIos:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21E236 Instagram 325.0.3.34.90 (iPhone14,5; iOS 17_4_1; en_US; en; scale=3.00; 1170x2532; 586391395)',
  facebookIos:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 16_7_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/440.0.0.29.110;FBBV/541970487;FBDV/iPhone12,1;FBMD/iPhone;FBSN/iOS;FBSV/16.7.2;FBSS/2;FBID/phone;FBLC/de_DE;FBOP/5]',
  chromeReduced:
    'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36',
  chromeOld:
    'Mozilla/5.0 (Linux; Android 13; SM-G991B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.5359.79 Mobile Safari/537.36',
  webview:
    'Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A.240305.019; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/122.0.6261.119 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/455.0.0.44.88;]',
  instagramAndroid:
    'Mozilla/5.0 (Linux; Android 13; SM-G991B Build/TP1A.220624.014; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/114.0.5735.196 Mobile Safari/537.36 Instagram 309.1.0.41.113 Android (33/13; 480dpi; 1080x2186; samsung; SM-G991B; o1s; exynos2100; en_GB; 541635863)',
  firefoxAndroid: 'Mozilla/5.0 (Android 14; Mobile; rv:125.0) Gecko/125.0 Firefox/125.0',
  linkedIn26:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.31.8841',
  webView26:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148',
  firefoxIos:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/147.5 Mobile/15E148 Safari/604.1',
  chromeIpad:
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/118 Version/11.1.1 Safari/605.1.15',
  windows:
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36',
  macChrome:
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36',
} as const;

const iphone: DeviceFields = {
  platform: 'ios',
  os_version: '17.5.1',
  device_model: 'iPhone15,2',
  language: 'en-US',
  timezone: 'America/New_York',
  screen_width: 1179,
  screen_height: 2556,
  screen_scale: 3,
};
const pixel: DeviceFields = {
  platform: 'android',
  os_version: '14',
  device_model: 'Pixel 8',
  language: 'en-US',
  screen_width: 1080,
  screen_height: 2400,
  screen_scale: 2.625,
};
const galaxy: DeviceFields = { ...pixel, os_version: '13', device_model: 'SM-G991B', language: 'en-GB' };

function score(click: Partial<ClickFields>, device: DeviceFields, deviceIp: string = ip, ageMs = 60_000) {
  const signals = clickSignals({ ip, user_agent: agents.safari17, language: 'en-US,en;q=0.9', ...click });
  return scoreOf(deviceSignals(device, deviceIp), { signals, time: now - ageMs }, now, 6 * HOUR_MS, 1);
}

function isMatched(click: Partial<ClickFields>, device: DeviceFields, deviceIp: string = ip): boolean {
  const signals = clickSignals({ ip, user_agent: agents.safari17, language: 'en-US,en;q=0.9', ...click });
  const candidate = {
    click_id: 'c',
    app_id: 'a',
    link_id: 'l',
    time: now - 60_000,
    is_bot: false,
    claimed_by: '',
    signals,
  };
  const settings = {
    attribution_window_hours: 168,
    probabilistic_window_hours: 6,
    min_confidence: 0.6,
    privacy_mode: 'full_ip' as const,
    conversion_events: [],
  };
  return decide({
    app_id: 'a',
    claimant: 'd',
    device: deviceSignals(device, deviceIp),
    evidence: [],
    candidates: [candidate],
    settings,
    nowMs: now,
  }).matched;
}

test.each<[string, Partial<ClickFields>, DeviceFields, boolean]>([
  ['iPhone: Safari and the SDK', {}, iphone, true],
  ['iPhone: a language with an underscore', {}, { ...iphone, language: 'en_US' }, true],
  [
    'iPhone on iOS 26, whose Safari says 18_6',
    { user_agent: agents.safari26 },
    { ...iphone, os_version: '26.0' },
    true,
  ],
  [
    'iPhone on iOS 18 is not one on 17',
    { user_agent: agents.safari26.replace('Version/26.0', 'Version/18.6') },
    iphone,
    false,
  ],
  [
    'iPad: Safari calls itself a Macintosh',
    { user_agent: agents.ipad },
    { ...iphone, os_version: '17.4.1', device_model: 'iPad13,4' },
    true,
  ],
  ['an iPhone is no Macintosh', { user_agent: agents.ipad }, { ...iphone, os_version: '17.4.1' }, false],
  ['Chrome on a Mac is no iPad', { user_agent: agents.macChrome }, { ...iphone, device_model: 'iPad13,4' }, false],
  [
    'Instagram on iPhone: hardware, language and screen',
    { user_agent: agents.instagramIos },
    { ...iphone, os_version: '17.4.1', device_model: 'iPhone14,5', screen_width: 390, screen_height: 844 },
    true,
  ],
  [
    'Facebook on iPhone',
    { user_agent: agents.facebookIos, language: 'de-DE' },
    { ...iphone, os_version: '16.7.2', device_model: 'iPhone12,1', language: 'de_DE' },
    true,
  ],
  ['Android: Chrome with a reduced agent', { user_agent: agents.chromeReduced }, pixel, true],
  ['Android: an old Chrome', { user_agent: agents.chromeOld, language: 'en-GB' }, galaxy, true],
  ['Android: a web view', { user_agent: agents.webview }, pixel, true],
  [
    'Android: Instagram',
    { user_agent: agents.instagramAndroid, language: '' },
    { ...galaxy, screen_width: 1080, screen_height: 2186, screen_scale: 3 },
    true,
  ],
  ['Android: Firefox', { user_agent: agents.firefoxAndroid }, pixel, true],
  [
    'LinkedIn on iOS 26, whose web view says 18_7',
    { user_agent: agents.linkedIn26 },
    { ...iphone, os_version: '26.2' },
    true,
  ],
  [
    'an app on iOS 26 that was built with older tools, which are told 19',
    { user_agent: agents.safari26 },
    { ...iphone, os_version: '19.0' },
    true,
  ],
  [
    'a web view of such an app, and the SDK of another',
    { user_agent: agents.safari17.replace(/OS 17_[\d_]+/, 'OS 19_1').replace(/Version\/[\d.]+ /, '') },
    { ...iphone, os_version: '26.1' },
    true,
  ],
  [
    'two of such apps',
    { user_agent: agents.facebookIos.replace(/FBSV\/[\d.]+/, 'FBSV/19.2') },
    { ...iphone, os_version: '19.2', device_model: 'iPhone12,1', language: 'de_DE' },
    true,
  ],
  [
    'such an app is not on iOS 18',
    { user_agent: agents.safari17.replace(/17_[\d_]+/, '18_5').replace(/Version\/[\d.]+/, 'Version/18.5') },
    { ...iphone, os_version: '19.0' },
    false,
  ],
  ['LinkedIn on iOS 26 is no iPhone on 17', { user_agent: agents.linkedIn26 }, iphone, false],
  ['Firefox on iOS 26', { user_agent: agents.firefoxIos }, { ...iphone, os_version: '26.2' }, true],
  [
    'an SDK on iOS 26 that has its web view’s user agent alone',
    { user_agent: agents.safari26 },
    { platform: 'ios', language: 'en-US', user_agent: agents.webView26 },
    true,
  ],
  [
    'Chrome on an iPad, whose Safari stayed at 11',
    { user_agent: agents.chromeIpad },
    { ...iphone, os_version: '17.4.1', device_model: 'iPad13,4' },
    true,
  ],
  [
    'an app that exists in English only, on a German phone',
    { user_agent: agents.safari17, language: 'de-DE,de;q=0.9' },
    { ...iphone, language: 'en_DE' },
    true,
  ],
  [
    'Instagram on another iPhone',
    { user_agent: agents.instagramIos },
    { ...iphone, os_version: '17.4.1', device_model: 'iPhone15,2' },
    false,
  ],
  [
    'a Galaxy is no Pixel',
    { user_agent: agents.instagramAndroid, language: '' },
    { ...pixel, os_version: '13' },
    false,
  ],
  [
    'a Galaxy by the name on its box',
    { user_agent: agents.instagramAndroid, language: '' },
    { ...galaxy, device_model: 'Galaxy S21 5G' },
    true,
  ],
  ['Android is not iOS', { user_agent: agents.webview }, iphone, false],
  ['a desktop is no phone', { user_agent: agents.windows }, pixel, false],
  [
    'a web SDK in the same browser',
    { user_agent: agents.windows },
    { platform: 'web', user_agent: agents.windows, language: 'en-US' },
    true,
  ],
])('%s', (_, click, device, expected) => {
  expect(isMatched(click, device)).toBe(expected);
});

test('what in-app browsers add is compared: model, screen in CSS pixels in either orientation, language', () => {
  const device = { ...iphone, os_version: '17.4.1', device_model: 'iPhone14,5' };
  const native = { ...device, screen_width: 2532, screen_height: 1170, screen_scale: 3 };
  const css = { ...device, screen_width: 390, screen_height: 844, screen_scale: 3 };
  const click = { user_agent: agents.instagramIos };
  for (const one of [native, css]) {
    expect(score(click, one)?.factors).toEqual(['ip', 'os_version', 'device_model', 'language', 'screen', 'age']);
  }
  expect(score(click, { ...native, screen_width: 1290 })?.factors).not.toContain('screen');
});

test('"iPhone" alone says nothing of the model, a frozen Android nothing of its version', () => {
  expect(score({}, iphone)?.factors).toEqual(['ip', 'os_version', 'language', 'age']);
  expect(score({ user_agent: agents.chromeReduced }, pixel)?.factors).toEqual(['ip', 'language', 'age']);
});

test('IPv6 agrees by its /64, IPv4 as a whole, and neither with the other', () => {
  const v6 = '2001:db8:1:2:3:4:5:6';
  expect(isMatched({ ip: v6 }, iphone, '2001:db8:1:2:ffff::1')).toBe(true);
  expect(isMatched({ ip: v6 }, iphone, '2001:db8:1:3::1')).toBe(false);
  expect(isMatched({}, iphone, '203.0.113.10')).toBe(false);
  expect(isMatched({ ip: v6 }, iphone)).toBe(false);
});

test('addresses of private relays and carriers give little weight', () => {
  for (const shared of ['172.224.226.4', '104.28.30.1', '2a02:26f7:1:2::3', '2606:54c0:7:8::9', '100.64.3.4']) {
    expect(isSharedAddress(shared)).toBe(true);
    expect(score({ ip: shared }, iphone, shared)?.confidence).toBeLessThan(0.6);
  }
  expect(isSharedAddress(ip)).toBe(false);
});

test.each([
  ['en-US', 'en', 'us'],
  ['en_US', 'en', 'us'],
  ['EN-us.UTF-8', 'en', 'us'],
  ['zh-Hans-CN', 'zh', 'cn'],
  ['iw_IL', 'he', 'il'],
  ['no-NO', 'nb', 'no'],
  ['de', 'de', ''],
  ['es-419', 'es', '419'],
  ['*', '', ''],
  ['', '', ''],
])('language %s', (text, primary, region) => {
  expect(languageOf(text)).toEqual([primary, region]);
});

test('the language of a browser within an app is a signal', () => {
  const device = { ...iphone, os_version: '17.4.1', device_model: 'iPhone14,5' };
  expect(score({ user_agent: agents.instagramIos, language: 'fr-FR' }, device)?.factors).toContain('language');
});

test('the phone’s preferred languages count, not the one language in which the app exists', () => {
  const german = { ...iphone, language: 'en_DE', languages: ['de-DE', 'en-DE'] };
  const factor = (language: string, device: DeviceFields) =>
    score({ language }, device)?.parts.find((part) => part.factor === 'language')?.agreement;
  expect(factor('de-DE,de;q=0.9', german)).toBe(1);
  expect(factor('de-DE,de;q=0.9', { ...german, languages: null })).toBe(0);
  expect(factor('de-DE,de;q=0.9,en;q=0.8', { ...german, languages: [] })).toBe(0.5);
  expect(factor('fr-FR,fr;q=0.9', german)).toBe(0);
});

const tapper: DeviceFields = {
  platform: 'ios',
  os_version: '17.5.1',
  device_model: 'iPhone15,2',
  language: 'en-US',
  timezone: 'America/New_York',
  screen_width: 393,
  screen_height: 852,
  screen_scale: 3,
};
const tapped = { timezone: 'America/New_York', screen: [393, 852], pixel_ratio: 3, languages: ['en-US'] } as const;

test('what a tap page sent counts as time zone and screen, whichever pixels the SDK sends', () => {
  for (const device of [tapper, { ...tapper, screen_width: 1179, screen_height: 2556, screen_scale: null }]) {
    const plain = score({}, device);
    const withTap = score({ tap: tapped }, device);
    expect(plain?.factors).not.toContain('timezone');
    expect(withTap?.factors).toEqual(expect.arrayContaining(['timezone', 'screen']));
    expect(withTap?.confidence).toBeGreaterThanOrEqual(plain?.confidence ?? 1);
  }
  expect(
    score({ tap: { ...tapped, timezone: 'Asia/Calcutta' } }, { ...tapper, timezone: 'Asia/Kolkata' })?.factors,
  ).toContain('timezone');
  const other = score({ tap: { ...tapped, timezone: 'Europe/Paris', screen: [430, 932] } }, tapper);
  expect(other?.confidence).toBeLessThan(score({ tap: tapped }, tapper)?.confidence ?? 0);
});

test('agreeing signals of a tap page never lower a score, alone or together, whatever else is known', () => {
  const signal = fc.record({
    timezone: fc.constantFrom('', tapped.timezone),
    screen: fc.constantFrom<[number, number]>([393, 852], [852, 393]),
    pixel_ratio: fc.constant(3),
    speaks: fc.boolean(),
  });
  const click = fc.record({
    user_agent: fc.constantFrom(...Object.values(agents)),
    language: fc.constantFrom('', 'en-US', 'de-DE,en;q=0.5', 'fr'),
  });
  const device = fc.record(
    {
      os_version: fc.constantFrom('17.5.1', '16'),
      language: fc.constantFrom('en-US', 'fr'),
      device_model: fc.constant('iPhone15,2'),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      click,
      device,
      signal,
      fc.integer({ min: 0, max: 6 * HOUR_MS }),
      (of, some, { speaks, ...tap }, ageMs) => {
        const asker = { ...tapper, ...some };
        const languages = speaks ? [asker.language ?? ''] : [];
        const without = score(of, asker, ip, ageMs);
        if (without)
          expect(score({ ...of, tap: { ...tap, languages } }, asker, ip, ageMs)?.confidence).toBeGreaterThanOrEqual(
            without.confidence,
          );
      },
    ),
  );
});

test.each<[string, readonly [number, number], readonly [number, number], number]>([
  ['the same', [411, 914], [411, 914], 1],
  ['without the system’s bars', [411, 914], [411, 830], 1],
  ['of another phone of the same width', [375, 812], [375, 667], 0],
  ['in native pixels, of another phone', [1080, 2400], [1080, 2340], 0],
  ['of another width', [393, 852], [402, 874], 0],
])('a screen %s', (_, one, other, expected) => {
  expect(sameScreen([one], [other])).toBe(expected);
  expect(sameScreen([other], [one])).toBe(expected);
});
