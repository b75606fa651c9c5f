import { expect, test } from 'vitest';
import { deviceOf } from '#common/click-device.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { newId } from '#common/ids.ts';
import type { Click } from '#common/log/record.ts';
import { Enrichment } from './enrichment.ts';
import { firstLanguage, referrerHost } from './steps/read-headers.ts';
import { normalizedIp, storedIp } from './stored-address.ts';
import { Visitors } from './visitors.ts';

const click: Click = {
  ...{ click_id: newId('clk', 1), organization_id: newId('org', 1), app_id: newId('app', 1), link_id: newId('lnk', 1) },
  ...{
    time: 1,
    privacy_mode: 'full_ip',
    trigger: 'link',
    rule: '',
    ip: '8.8.8.8',
    user_agent: 'curl/8.0',
    language: 'de',
  },
  ...{ referrer: 'https://example.com', query: 'a=b', campaign: 'spring', utm_source: 'mail', utm_medium: '' },
  ...{ utm_campaign: '', utm_term: '', utm_content: '', is_prefetch: false, is_preview: false },
};

function newEnrichment(): Enrichment {
  return new Enrichment({ countries: openCountryDatabase(''), visitors: new Visitors(() => 'salt') });
}

const webkit = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1';
const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Mobile Safari/537.36';

test.each([
  [`Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) ${webkit}`, 'ios', 'iOS', '17.4', 'Safari', 'iPhone', false],
  [`Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) ${webkit}`, 'ios', 'iOS', '16.6', 'Safari', 'iPad', false],
  [
    `Mozilla/5.0 (Linux; Android 14; Pixel 8 Pro Build/UQ1A.240105) ${chrome}`,
    'android',
    'Android',
    '14',
    'Chrome',
    'Pixel 8 Pro',
    false,
  ],
  [
    `Mozilla/5.0 (Linux; Android 13; de-de; SM-S918B) ${chrome}`,
    'android',
    'Android',
    '13',
    'Chrome',
    'SM-S918B',
    false,
  ],
  [`Mozilla/5.0 (Linux; Android 10; K) ${chrome}`, 'android', 'Android', '', 'Chrome', '', false],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36',
    'desktop',
    'Windows',
    '10',
    'Chrome',
    '',
    false,
  ],
  [
    'Mozilla/5.0 (X11; Linux x86_64; rv:122.0) Gecko/20100101 Firefox/122.0',
    'desktop',
    'Linux',
    '',
    'Firefox',
    '',
    false,
  ],
  ['Googlebot/2.1 (+http://www.google.com/bot.html)', 'other', '', '', 'Googlebot', '', true],
  ['curl/8.4.0', 'other', '', '', '', '', true],
  ['', 'other', '', '', '', '', false],
])('%s', (agent, platform, os, os_version, browser, device_model, isBot) => {
  expect(deviceOf(agent)).toEqual({ platform, os, os_version, browser, device_model, isBot });
});

test.each([
  ['203.0.113.77', '203.0.113.0', '203.0.113.77'],
  ['::ffff:203.0.113.77', '203.0.113.0', '203.0.113.77'],
  ['2001:0db8:0001:0002:0003:0004:0005:0006', '2001:db8:1::', '2001:db8:1:2:3:4:5:6'],
  ['::1', '::', '::1'],
  ['nonsense', '', ''],
  ['', '', ''],
])('depending on the privacy mode, %s is stored as its network, whole or not at all', (given, network, whole) => {
  const ip = normalizedIp(given);
  expect(storedIp(ip, 'anonymize_ip')).toBe(network);
  expect(storedIp(ip, 'full_ip')).toBe(whole);
  expect(storedIp(ip, 'no_ip')).toBe('');
});

test('the included database has countries for IPv4 and IPv6 addresses', () => {
  const countries = openCountryDatabase('');
  expect(countries.countryOf('8.8.8.8')).toBe('US');
  expect(countries.countryOf('2001:4860:4860::8888')).toBe('US');
  expect(countries.countryOf('127.0.0.1')).toBe('');
});

const at = (text: string) => ({ text, words: undefined });

test('a visitor’s number is the same for the same app, address, agent and day, and differs if any of them differs', () => {
  const visitors = new Visitors((day) => `salt of ${day}`);
  const base = visitors.encoded(1, 'app_1', at('1.2.3.4'), 'agent');
  const others = [
    visitors.encoded(2, 'app_1', at('1.2.3.4'), 'agent'),
    visitors.encoded(1, 'app_2', at('1.2.3.4'), 'agent'),
    visitors.encoded(1, 'app_1', at('1.2.3.5'), 'agent'),
    visitors.encoded(1, 'app_1', at('1.2.3.4'), 'agent 2'),
    visitors.encoded(1, 'agent', at('1.2.3.4'), 'app_1'),
  ];
  expect(new Set([base, ...others]).size).toBe(6);
  expect(visitors.encoded(1, 'app_1', at('1.2.3.4'), 'agent')).toBe(base);
});

test('40,000 visitors have 40,000 distinct numbers, none above 2^52', () => {
  const visitors = new Visitors(() => 'salt');
  const numbers = new Set<string>();
  for (let n = 0; n < 40_000; n++) {
    const bytes = visitors.encoded(1, `app_${n % 4}`, at(`10.0.${(n >> 2) % 100}.1`), `agent ${Math.floor(n / 400)}`);
    if (bytes.length === 8 && bytes.charCodeAt(6) < 0x10 && bytes.charCodeAt(7) === 0) numbers.add(bytes);
  }
  expect(numbers.size).toBe(40_000);
});

test.each([
  ['de-DE,de;q=0.9,en;q=0.8', 'de-DE'],
  ['PT-br', 'pt-BR'],
  ['zh-Hant-TW', 'zh-Hant-TW'],
  [' en ;q=1', 'en'],
  ['*', ''],
  ['', ''],
  ['<script>', ''],
])('the first language of %j is %j', (header, language) => {
  expect(firstLanguage(header)).toBe(language);
});

test.each([
  ['https://Example.com:8443/a?b#c', 'example.com'],
  ['https://user:secret@example.com/', 'example.com'],
  ['android-app://com.google.android.gm/', 'com.google.android.gm'],
  ['http://[2001:db8::1]/', '[2001:db8::1]'],
  ['about:blank', ''],
  ['/relative', ''],
  ['', ''],
])('the host of %j is %j', (referrer, host) => {
  expect(referrerHost(referrer)).toBe(host);
});

test('an address is stored according to the app’s privacy mode: not at all, as its network, or whole', () => {
  const modes = ['no_ip', 'anonymize_ip', 'full_ip'] as const;
  const enrichment = newEnrichment();
  expect(modes.map((privacy_mode) => enrichment.columnsOf('anonymize_address', { ...click, privacy_mode }))).toEqual([
    '\u0000\u0002US\0\0',
    '\u00078.8.8.0\u0002US\0\0',
    '\u00078.8.8.8\u0002US\0\0',
  ]);
});

test('an enrichment step reads only the click fields that it declares', () => {
  const enrichment = newEnrichment();
  for (const { name, reads } of enrichment.steps) {
    const touched = new Set<string>();
    const watched = new Proxy(click, {
      get: (target, field: keyof Click) => {
        touched.add(field);
        return target[field];
      },
    });
    // Twice, because a cached answer may compare other fields than the first call read.
    for (let n = 0; n < 2; n++) enrichment.columnsOf(name, watched);
    expect([...touched].sort(), name).toEqual([...reads].sort());
  }
});
