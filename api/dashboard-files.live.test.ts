/** The dashboard's files, as the API serves them next to its endpoints. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { DashboardFiles } from './dashboard-files.ts';
import { type ApiForTest, apiForTest } from './testing/running-api.ts';

const folder = join(packageRoot(), 'dist', 'dashboard');
let api: ApiForTest;
let origin = '';

beforeAll(async () => {
  api = await apiForTest({ RATE_LIMIT_GENERAL: '20' }, undefined, DashboardFiles.load());
  origin = new URL(api.url).origin;
});
afterAll(() => api.stop());

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(origin + path, { method, headers: { 'x-forwarded-proto': 'https', ...headers } });
const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

test.each(['/', '/links', '/links/lnk_1?period=7d', '/anything'])(
  'a browser that opens %s gets the page, with a strict policy',
  async (path) => {
    const answer = await get(path, browser);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(await answer.text()).toContain('<div id="root">');
    const policy = answer.headers.get('content-security-policy') ?? '';
    for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]) {
      expect(policy).toContain(rule);
    }
    expect(policy).not.toContain('unsafe');
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  },
);

test('a shared page is a separate HTML page that search engines are asked not to index', async () => {
  const [page, shared] = [await get('/', browser), await get('/shared', browser)];
  expect([shared.status, shared.headers.get('x-robots-tag')]).toEqual([200, 'noindex']);
  expect(shared.headers.get('content-security-policy')).toBe(page.headers.get('content-security-policy'));
  expect(await shared.text()).toMatch(/src="\/assets\/shared-[A-Z0-9]{8}\.js"/);
  expect((await get('/shared', { accept: '*/*' })).status).toBe(404);
});

test('a monitor that opens the first page and accepts anything gets it', async () => {
  for (const method of ['GET', 'HEAD']) {
    const answer = await get('/', { accept: '*/*' }, method);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  }
});

test('programs get JSON errors, as without a dashboard', async () => {
  for (const [path, headers, method] of [
    ['/', { accept: 'application/json' }, 'GET'],
    ['/links', { accept: '*/*' }, 'GET'],
    ['/links', { accept: 'application/json' }, 'GET'],
    ['/', browser, 'POST'],
    ['/v1/nothing', browser, 'GET'],
    ['/assets/missing.js', browser, 'GET'],
  ] as const) {
    const answer = await get(path, headers, method);
    expect([path, answer.status]).toEqual([path, 404]);
    expect(await answer.json()).toMatchObject({ error: { code: 'NOT_FOUND' } });
  }
});

test('plain HTTP does not serve the page', async () => {
  const answer = await fetch(`${origin}/`, { headers: browser });
  expect(answer.status).toBe(403);
});

test('the page and its assets do not count toward the rate limit', async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, () => get('/', browser)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
});

test('assets have a hash in their names, are kept for a year, and come compressed if the client accepts it', async () => {
  const names = readdirSync(join(folder, 'assets')).filter((name) => /\.(js|css)$/.test(name));
  expect(names.length).toBeGreaterThan(5);
  for (const name of names) {
    expect(name).toMatch(/-[A-Z0-9]{8}\.(js|css)$/);
    const { status, headers } = await get(`/assets/${name}`, { 'accept-encoding': 'identity' }, 'HEAD');
    expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
  }
  const [name = ''] = names;
  const plain = readFileSync(join(folder, 'assets', name));
  const files = DashboardFiles.load();
  const packed = (coding: string) => {
    const answer = files?.find(`/assets/${name}`, (header) => (header === 'accept-encoding' ? coding : ''));
    if (!answer || !('bytes' in answer)) throw new Error('no answer');
    return { coding: answer.headers?.['Content-Encoding'], bytes: Buffer.from(answer.bytes) };
  };
  expect(packed('gzip, deflate, br')).toMatchObject({ coding: 'br' });
  expect(brotliDecompressSync(packed('br').bytes)).toEqual(plain);
  expect(packed('gzip')).toMatchObject({ coding: 'gzip' });
  expect(gunzipSync(packed('gzip').bytes)).toEqual(plain);
  expect(packed('')).toEqual({ coding: undefined, bytes: plain });
});

test('a page that the browser has cached gets a 304', async () => {
  const first = await get('/', browser);
  const again = await get('/', { ...browser, 'if-none-match': first.headers.get('etag') ?? '' });
  expect([again.status, await again.text()]).toEqual([304, '']);
});

test('the script of the first page is at most 120 kB compressed, and the styles at most 10 kB', () => {
  const page = readFileSync(join(folder, 'index.html'), 'utf8');
  const named = (extension: string) =>
    [...page.matchAll(new RegExp(`/assets/([\\w-]+\\.${extension})"`, 'g'))].map(([, name]) => name ?? '');
  const size = (extension: string) =>
    named(extension).reduce((sum, name) => sum + gzipSync(readFileSync(join(folder, 'assets', name))).length, 0);
  expect(named('js').length).toBeGreaterThan(0);
  console.log(`first page, gzip: script ${size('js')} bytes, styles ${size('css')} bytes`);
  expect(size('js')).toBeLessThanOrEqual(120_000);
  expect(size('css')).toBeLessThanOrEqual(10_000);
});
