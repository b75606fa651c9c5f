/**
 * A real domain: Caddy or nginx in front of `npm start`; Caddy gets a certificate for each app's host at its first visit.
 *
 * @module-tag slow
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { localClickHouseUrl } from '#api/admin/local-store.ts';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { StoredRecords } from '#deploy/faults/stored.ts';
import { freePort } from '#deploy/local/ports.ts';
import { skipWithout } from '#testing/skip.ts';
import { Caddy, caddyProgram } from './caddy.ts';
import { Nginx, nginxProgram } from './nginx.ts';
import { type Call, type Reply, Stack } from './stack.ts';

const phone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';
const apiHost = 'api.example.com';
const secret = 'a-secret-of-the-proxy-with-enough-characters';

let apiPort: number;
let dns: DnsForTest;
let stack: Stack;
let caddy: Caddy;
let call: (path: string, call?: Call) => Promise<Reply>;

beforeAll(async () => {
  if (caddyProgram === undefined) return;
  dns = await dnsForTest();
  apiPort = await freePort();
  stack = await Stack.start({
    SHORT_LINK_DOMAIN: 'go.example.com',
    API_PUBLIC_URL: `https://${apiHost}/v1`,
    API_HTTP_PORT: String(apiPort),
    TRUSTED_PROXIES: '127.0.0.1',
    PROXY_SECRET: secret,
    REDIRECTOR_HTTPS_PORT: '0',
    DNS_SERVERS: dns.address,
  });
  const listed: { name: string; metrics_url: string }[] = JSON.parse(
    readFileSync(join(stack.dataDir, 'processes.json'), 'utf8'),
  );
  const origin = listed.find(({ name }) => name === 'origin')?.metrics_url ?? '';
  caddy = await Caddy.start({
    secret,
    apiHost,
    apiPort,
    linkPort: stack.redirectorPort,
    tlsQuestion: `${origin}/tls-allowed`,
  });
  call = await stack.loggedIn();
});
afterAll(async () => {
  await caddy?.stop();
  await stack?.stop();
  await dns?.stop();
});

async function newApp(name: string, host?: string): Promise<{ id: string; host: string }> {
  const ios = { bundle_id: 'com.example.shop', team_id: 'ABCDE12345', app_store_id: '123456789' };
  const reply = await call('/apps', {
    method: 'POST',
    body: { name, ios, fallback_url: 'https://example.com/', ...(host === undefined ? {} : { host }) },
  });
  expect(reply.status, reply.text).toBe(201);
  return reply.json();
}

async function newLink(app_id: string): Promise<{ id: string; short_code: string; url: string }> {
  const reply = await call('/links', { method: 'POST', body: { app_id, path: '/sale' } });
  expect(reply.status, reply.text).toBe(201);
  return reply.json();
}

test('links on the installation’s own and on verified hosts work over HTTPS with certificates issued on demand, and the clicks are counted', {
  timeout: 120_000,
}, async (context) => {
  skipWithout(caddyProgram !== undefined, 'caddy', context);
  const own = await newApp('Shop');
  expect(own.host).toBe('shop.go.example.com');
  const proven = await newApp('Brand', 'links.brand.example');
  dns.records.set('_signpost.links.brand.example', [`signpost-app=${proven.id}`]);
  const status = async () =>
    (await call(`/apps/${proven.id}`)).json<{ host_verification: { status: string } }>().host_verification.status;
  await expect.poll(status, { timeout: 45_000 }).toBe('verified');
  for (const app of [own, proven]) {
    const link = await newLink(app.id);
    expect(link.url).toBe(`https://${app.host}/${link.short_code}`);
    const visit = await caddy.get(app.host, `/${link.short_code}`, { 'user-agent': phone });
    expect([visit.status, visit.headers['location']]).toEqual([
      302,
      expect.stringMatching(/^https:\/\/apps\.apple\.com\//),
    ]);
    const association = await caddy.get(app.host, '/.well-known/apple-app-site-association');
    expect(association.status).toBe(200);
    expect(association.text).toContain('ABCDE12345.com.example.shop');
    const clicks = async () =>
      (await call(`/links/${link.id}/stats`)).json<{ totals: { clicks: number } }>().totals.clicks;
    await expect.poll(clicks, { timeout: 20_000 }).toBe(1);
  }
});

test('an unknown host, an unverified one, and an IP address get no certificate', async (context) => {
  skipWithout(caddyProgram !== undefined, 'caddy', context);
  await newApp('Unproven', 'links.unproven.example');
  for (const host of ['stranger.example', 'links.unproven.example', 'nothing.go.example.com']) {
    await expect(caddy.get(host, '/'), host).rejects.toThrow(/alert|ECONNRESET|socket/i);
  }
});

test('the API answers over HTTPS on its own host, and counts requests by the visitor’s address', async (context) => {
  skipWithout(caddyProgram !== undefined, 'caddy', context);
  const version = await caddy.get(apiHost, '/v1/version');
  expect(JSON.parse(version.text)).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  expect((await caddy.get(apiHost, '/v1/docs')).text).toContain('<!doctype html>');
  const gzip = { 'accept-encoding': 'gzip' };
  expect((await caddy.get(apiHost, '/v1/openapi.json', gzip)).headers['content-encoding']).toBe('gzip');
});

test('behind nginx, links and the API work over HTTPS, and a visitor cannot claim another address', async (context) => {
  skipWithout(caddyProgram !== undefined && nginxProgram !== undefined, 'caddy or nginx', context);
  const files = { certFile: join(stack.dataDir, 'tls', 'cert.pem'), keyFile: join(stack.dataDir, 'tls', 'key.pem') };
  const nginx = await Nginx.start({ secret, apiPort, linkPort: stack.redirectorPort, ...files });
  try {
    const app = await newApp('Nginx');
    const link = await newLink(app.id);
    const visit = await nginx.get(app.host, `/${link.short_code}`, {
      'user-agent': phone,
      'x-forwarded-for': '203.0.113.9',
    });
    expect(visit).toMatchObject({ status: 302, location: expect.stringMatching(/^https:\/\/apps\.apple\.com\//) });
    expect((await nginx.get(apiHost, '/v1/version', { cookie: `a=${'x'.repeat(10_000)}` })).status).toBe(200);
    const stored = new StoredRecords(localClickHouseUrl(stack.dataDir));
    const addresses = () => stored.ask(`SELECT groupArray(ip) FROM clicks WHERE link_id = '${link.id}'`);
    await expect.poll(addresses, { timeout: 20_000 }).toMatch(/^\['127\.0\.0\.\d+'\]/);
  } finally {
    await nginx.stop();
  }
});
