import { createHash } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { signalsKey } from '#common/links/tap-page.ts';
import { findProgram } from '#deploy/local/programs.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { skipWithout } from '#testing/skip.ts';
import { BEACON_BYTES_MAX, BEACONS_MAX } from './signal-beacon.ts';
import { Rows, TestEdge, until } from './testing/running-edge.ts';

const host = 'go.localhost';
const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const instagram =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 385.0.0.25.75 (iPhone15,2; iOS 18_5; de_DE; de; scale=3.00; 1179x2556; 744104534)';
const wechat = `${iphone.replace('Version/18.5 ', '').replace(' Safari/604.1', '')} MicroMessenger/8.0.49(0x18003137) NetType/WIFI Language/zh_CN`;
const android =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';
const desktop = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
const facebook = 'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)';
const googlebot =
  'Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)';
const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const signals = { timezone: 'Europe/Berlin', screen: [390, 844], pixel_ratio: 3, languages: ['de-DE', 'en'] };

let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
let edge: TestEdge;

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  const app = {
    ios: { bundle_id: 'com.example.app', team_id: 'TEAM123456', app_store_id: '123456789' },
    android: { package_name: 'com.example.app', sha256_cert_fingerprints: ['AA:BB'] },
    fallback_url: 'https://example.com/',
  };
  const settings = { privacy_mode: 'anonymize_ip', probabilistic_window_hours: 6, tap_page: 'mobile' };
  const appId = await rows.app({ host, ...app, settings });
  const plain = {
    short_code: 'sale',
    og_title: 'Summer sale',
    og_description: 'Everything for the beach, up to half off.',
  };
  await rows.link(appId, { ...plain, utm_source: 'mail' });
  await rows.link(appId, { ...plain, short_code: 'picture', og_image_url: `https://${host}/beach.png` });
  await rows.link(appId, { short_code: 'bare' });
  await rows.link(appId, { short_code: 'off', tap_page: 'off' });
  await rows.link(appId, { short_code: 'old', expires_at: new Date(0), expired_url: 'https://example.com/over' });
  const quiet = await rows.app({ host: 'quiet.localhost', ...app, settings: { ...settings, privacy_mode: 'no_ip' } });
  await rows.link(quiet, { short_code: 'sale' });
  edge = await TestEdge.start(
    { redis: redis.url, postgres: database.url },
    { beaconClock: () => Date.now() + beaconsLaterMs },
  );
});

afterAll(async () => {
  await edge.stop();
  await rows.db.close();
  await redis.stop();
  await database.stop();
});

const open = (path: string, userAgent: string, headers: Record<string, string> = {}) =>
  edge.get(host, path, { 'user-agent': userAgent, accept: html, ...headers });
const tokenOf = (page: string) => /data-t="([^"]*)"/.exec(page)?.[1] ?? '';

/** How far the clock that counts beacons is ahead. */
let beaconsLaterMs = 0;

async function beacon(body: string, headers: Record<string, string> = {}): Promise<number> {
  return (await sendBeacon(body, headers)).statusCode ?? 0;
}

function sendBeacon(body: string, headers: Record<string, string> = {}): Promise<IncomingMessage> {
  return new Promise((done, fail) => {
    const sent = request(
      {
        port: edge.port,
        host: '127.0.0.1',
        path: '/-/tap',
        method: 'POST',
        headers: { host, ...headers },
        agent: false,
      },
      (answer) => {
        answer.resume();
        done(answer);
      },
    );
    sent.on('error', fail);
    sent.end(body);
  });
}

test('a person on a phone gets the page with its click, which is recorded once as before', async () => {
  for (const userAgent of [iphone, instagram, android]) {
    const before = edge.clicks().length;
    const reply = await open('/sale', userAgent);
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(reply.headers['cache-control']).toBe('private, no-store');
    expect(reply.body).toContain('<h1 dir="auto">Summer sale</h1>');
    const clicks = edge.clicks().slice(before);
    expect(clicks).toMatchObject([{ trigger: 'link', user_agent: userAgent, utm_source: 'mail' }]);
    expect(clicks[0]).not.toHaveProperty('is_preview');
    expect(reply.body).toContain(String(clicks[0]?.['click_id']));
  }
});

test('a complete answer with a page, including headers, is at most 6 KiB', async () => {
  for (const userAgent of [iphone, android, wechat]) {
    for (const language of ['en', 'ru', 'ar', 'ja']) {
      const reply = await open('/picture', userAgent, { 'accept-language': language });
      expect(reply.status).toBe(200);
      const head = Object.entries(reply.headers).reduce(
        (sum, [name, value]) => sum + name.length + String(value).length + 4,
        20,
      );
      expect(head + Buffer.byteLength(reply.body)).toBeLessThanOrEqual(6_144);
    }
  }
});

test('the policy of the page names the hashes of its style and its script', async () => {
  const reply = await open('/sale', iphone);
  const policy = String(reply.headers['content-security-policy']);
  for (const [tag, directive] of [
    ['style', 'style-src'],
    ['script', 'script-src'],
  ]) {
    const inside = new RegExp(`<${tag}>(.*?)</${tag}>`, 's').exec(reply.body)?.[1] ?? '';
    expect(policy).toContain(`${directive} 'sha256-${createHash('sha256').update(inside).digest('base64')}'`);
  }
  expect(policy).not.toContain('unsafe');
});

test.each<[string, string, string, Record<string, string>, string]>([
  ['a desktop', '/sale', desktop, {}, 'https://example.com/?utm_source=mail'],
  ['a bot with a phone’s user agent', '/sale', googlebot, {}, 'https://play.google.com/'],
  ['a preview crawler of a link without a preview', '/bare', facebook, {}, 'https://example.com/'],
  ['a prefetch', '/sale', iphone, { 'sec-purpose': 'prefetch' }, 'https://apps.apple.com/app/id123456789'],
  ['a program that accepts anything', '/sale', iphone, { accept: '*/*' }, 'https://apps.apple.com/app/id123456789'],
  ['a link that has it switched off', '/off', iphone, {}, 'https://apps.apple.com/app/id123456789'],
  ['an expired link', '/old', iphone, {}, 'https://example.com/over'],
])('%s is redirected as without a tap page, and is one click', async (_, path, userAgent, headers, location) => {
  for (let visit = 0; visit < 2; visit++) {
    const before = edge.clicks().length;
    const reply = await open(path, userAgent, headers);
    expect(reply.status).toBe(302);
    expect(reply.headers.location?.startsWith(location), reply.headers.location).toBe(true);
    expect(edge.clicks().length).toBe(before + 1);
  }
});

test('HEAD is a redirect and not a click, and the preview and the association files are unchanged', async () => {
  const before = edge.clicks().length;
  const head = await edge.get(host, '/sale', { 'user-agent': iphone, accept: html }, 'HEAD');
  expect([head.status, head.headers.location]).toEqual([302, 'https://apps.apple.com/app/id123456789']);
  expect(edge.clicks().length).toBe(before);
  expect((await open('/sale', facebook)).body).toContain('og:title');
  expect((await edge.get(host, '/.well-known/apple-app-site-association')).status).toBe(200);
});

test('the signals of a page are stored next to its click for the app’s window, the first time they arrive', async () => {
  const page = (await open('/sale', iphone)).body;
  const clickId = String(edge.clicks().at(-1)?.['click_id']);
  expect(await beacon(JSON.stringify({ token: tokenOf(page), ...signals }))).toBe(204);
  const key = signalsKey(clickId);
  await until(async () => (await edge.redis.commands.exists(key)) === 1, 'the signals are stored');
  expect(JSON.parse((await edge.redis.commands.get(key)) ?? '')).toEqual(signals);
  const ttlMs = await edge.redis.commands.pttl(key);
  expect(ttlMs).toBeGreaterThan(6 * 3_590_000);
  expect(ttlMs).toBeLessThanOrEqual(6 * HOUR_MS);
  expect(await beacon(JSON.stringify({ token: tokenOf(page), ...signals, timezone: 'Asia/Tokyo' }))).toBe(204);
  await until(() => edge.edge.counters.answers.tap_page > 0 && edge.beacon.counters.repeated === 1, 'it was counted');
  expect(JSON.parse((await edge.redis.commands.get(key)) ?? '')).toEqual(signals);
});

test('signals that are unsigned, of another click, malformed or too large are rejected and not stored', async () => {
  const token = tokenOf((await open('/sale', iphone)).body);
  const forged = token.replace(/^clk_\w+/, newId('clk', Date.now()));
  for (const body of [
    '',
    '[]',
    '{',
    JSON.stringify(signals),
    JSON.stringify({ token: forged, ...signals }),
    JSON.stringify({ token, ...signals, extra: 1 }),
    JSON.stringify({ token, ...signals, languages: '<script>' }),
  ]) {
    expect(await beacon(body), body).toBe(400);
  }
  expect(await beacon(JSON.stringify({ token, ...signals, timezone: 'x'.repeat(BEACON_BYTES_MAX) }))).toBe(413);
  expect(await edge.redis.commands.exists(signalsKey(token.slice(0, 30)))).toBe(0);
  expect((await edge.get(host, '/-/tap', {}, 'POST')).status).toBe(400);
  for (const method of ['GET', 'PUT']) expect((await edge.get(host, '/-/tap', {}, method)).status).toBeGreaterThan(403);
});

test('beyond its limit, an address gets 429 with Retry-After for a minute, and those beacons are neither stored nor counted as stored', async () => {
  // Uses a minute of its own.
  beaconsLaterMs += 60_000;
  const before = { ...edge.beacon.counters };
  const [page, other] = [(await open('/sale', iphone)).body, (await open('/sale', iphone)).body];
  const clicks = edge.clicks().length;
  const one = JSON.stringify({ token: tokenOf(page), ...signals });
  const statuses = new Map<number, number>();
  for (let sent = 0; sent < BEACONS_MAX; sent += 50) {
    for (const status of await Promise.all(Array.from({ length: 50 }, () => beacon(one))))
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  expect([...statuses]).toEqual([[204, BEACONS_MAX]]);
  const rest = JSON.stringify({ token: tokenOf(other), ...signals });
  const refused = await sendBeacon(rest);
  expect(refused.statusCode).toBe(429);
  const retryAfter = Number(refused.headers['retry-after']);
  expect(retryAfter).toBeGreaterThan(30);
  expect(retryAfter).toBeLessThanOrEqual(60);
  expect(await beacon('[]')).toBe(429);
  const counted = () => {
    const { kept, repeated, lost, invalid, rate_limited } = edge.beacon.counters;
    return [
      kept + repeated + lost - before.kept - before.repeated - before.lost,
      kept - before.kept,
      invalid - before.invalid,
      rate_limited - before.rate_limited,
    ];
  };
  await until(() => counted()[0] === BEACONS_MAX, 'all accepted ones are counted');
  expect(counted()).toEqual([BEACONS_MAX, 1, 0, 2]);
  expect(await edge.redis.commands.exists(signalsKey(tokenOf(other).slice(0, 30)))).toBe(0);
  expect(edge.clicks().length).toBe(clicks);
  beaconsLaterMs += 60_000;
  expect(await beacon(rest)).toBe(204);
  await until(
    async () => (await edge.redis.commands.exists(signalsKey(tokenOf(other).slice(0, 30)))) === 1,
    'the signals are stored',
  );
});

test('an app that stores no address does not request signals', async () => {
  const reply = await edge.get('quiet.localhost', '/sale', { 'user-agent': iphone, accept: html });
  expect([reply.status, tokenOf(reply.body)]).toEqual([200, '']);
});

const program = findProgram(['chromium', 'chromium-browser', 'google-chrome']);
const phone = { viewport: { width: 375, height: 667 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true } as const;

let browser: Browser | undefined;
afterEach(() => Promise.all((browser?.contexts() ?? []).map((context) => context.close())));
afterAll(() => browser?.close());

/** One browser for all tests; each test has its own context. */
async function openBrowser(): Promise<Browser> {
  const quiet = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
  const rules = `MAP *.localhost 127.0.0.1, MAP * 127.0.0.1:9`;
  browser ??= await chromium.launch({
    executablePath: program ?? '',
    args: [
      ...[...quiet, '--disable-sync', '--no-first-run', '--disable-quic', `--host-resolver-rules=${rules}`],
      `--unsafely-treat-insecure-origin-as-secure=http://${host}:${edge.port}`,
    ],
  });
  return browser;
}

/** Opens a page with its picture served. @returns it with the errors that the browser reports. */
async function openPage(options: BrowserContextOptions): Promise<{ page: Page; faults: string[] }> {
  const context = await (await openBrowser()).newContext({ ...phone, ...options });
  const faults: string[] = [];
  const page = await context.newPage();
  const body = `<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="630"><defs><linearGradient id="g" x2="1" y2="1"><stop stop-color="#ffb36b"/><stop offset="1" stop-color="#2f7fd1"/></linearGradient></defs><rect width="1200" height="630" fill="url(#g)"/><circle cx="820" cy="240" r="120" fill="#fff6"/></svg>`;
  await page.route(`https://${host}/beach.png`, (route) => route.fulfill({ contentType: 'image/svg+xml', body }));
  page.on('console', (line) => faults.push(line.text()));
  page.on('pageerror', (error) => faults.push(error.message));
  return { page, faults };
}

test.for<[string, string, boolean]>([
  ['Safari on an iPhone', iphone, true],
  ['Instagram on an iPhone', instagram, true],
  ['WeChat on an iPhone', wechat, true],
  ['Chrome on Android', android, false],
])(
  'in a real browser the page works within its policy: %s',
  { timeout: 120_000 },
  async ([name, userAgent, isCopied], context) => {
    skipWithout(program !== undefined, 'chromium', context);
    const timezoneId = 'America/Sao_Paulo';
    const { page, faults } = await openPage({ userAgent, locale: 'pt-BR', timezoneId });
    await page.goto(`http://${host}:${edge.port}/picture`);
    const clickId = String(edge.clicks().at(-1)?.['click_id']);
    const key = signalsKey(clickId);
    await until(async () => (await edge.redis.commands.exists(key)) === 1, 'the signals arrived', 20_000);
    expect(JSON.parse((await edge.redis.commands.get(key)) ?? '')).toEqual({
      timezone: timezoneId,
      screen: [375, 667],
      pixel_ratio: 2,
      languages: ['pt-BR'],
    });
    const button = page.getByRole('link', { name: 'Baixar o app' });
    expect((await button.boundingBox())?.height, name).toBeGreaterThanOrEqual(48);
    expect(await page.locator('img').evaluate((image) => Reflect.get(image, 'naturalWidth'))).toBeGreaterThan(0);
    expect(await page.locator('.h').count()).toBe(name.startsWith('WeChat') ? 1 : 0);
    const href = (await button.getAttribute('href')) ?? '';
    if (!isCopied) {
      expect(href).toMatch(/^intent:\/\/go\.localhost\/picture#Intent;scheme=https;package=com\.example\.app;/);
      expect(decodeURIComponent(decodeURIComponent(href))).toContain(`referrer=click_id=${clickId}`);
      expect(faults).toEqual([]);
      return;
    }
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const asked = page.waitForRequest(
      (one) => one.isNavigationRequest() && one.url().startsWith('https://apps.apple.com/'),
    );
    await button.tap();
    expect((await asked).url()).toBe('https://apps.apple.com/app/id123456789');
    expect(faults.filter((line) => !line.includes('ERR_'))).toEqual([]);
    const reader = await page.context().newPage();
    await reader.goto(`http://${host}:${edge.port}/robots.txt`);
    const copied = await reader.evaluate('navigator.clipboard.readText()');
    expect(copied).toBe(`https://${host}/picture?click_id=${clickId}`);
  },
);

test('without JavaScript the page is shown and its button leads to the store', {
  timeout: 120_000,
}, async (context) => {
  skipWithout(program !== undefined, 'chromium', context);
  const { page, faults } = await openPage({ userAgent: iphone, javaScriptEnabled: false, locale: 'de-DE' });
  await page.goto(`http://${host}:${edge.port}/sale`);
  expect(await page.locator('a.a').getAttribute('href')).toBe('https://apps.apple.com/app/id123456789');
  expect(await page.locator('a.a').textContent()).toBe('App laden');
  expect(faults).toEqual([]);
});
