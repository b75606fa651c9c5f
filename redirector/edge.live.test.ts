import { X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pathOfCode } from '#common/links/short-code.ts';
import { readCertificates } from '#common/process/certificate-files.ts';
import { certificate } from '#deploy/local/made-once.ts';
import { postgresForTest, redisForTest, type TestDatabase, type TestServer } from '#testing/servers.ts';
import { get, Rows, TestEdge } from './testing/running-edge.ts';

const host = 'myapp.localhost';
const quietHost = 'quiet.localhost';
const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1';
const pixel =
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36';
const desktop = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const facebook = 'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)';

let database: TestDatabase;
let redis: TestServer;
let rows: Rows;
let edge: TestEdge;
let appId: string;
const links: Record<string, string> = {};

beforeAll(async () => {
  [database, redis] = await Promise.all([postgresForTest(), redisForTest()]);
  rows = new Rows(database.url);
  await rows.begin();
  appId = await rows.app({
    host,
    ios: { bundle_id: 'com.example.app', team_id: 'TEAM123456', app_store_id: '123456789', uri_scheme: 'example' },
    android: { package_name: 'com.example.app', sha256_cert_fingerprints: ['AA:BB'], uri_scheme: 'example' },
    fallback_url: 'https://example.com/get?v=1',
  });
  const bare = await rows.app({ host: 'bare.localhost' });
  links['summer'] = await rows.link(appId, {
    short_code: 'summer',
    path: '/sale',
    campaign: 'summer-26',
    fallback_url: 'https://example.com/sale?ref=link',
    utm_source: 'mail',
    utm_campaign: 'summer 26',
  });
  await rows.link(appId, { short_code: 'urls', ios_url: 'https://i.example/', android_url: 'https://a.example/x' });
  await rows.link(appId, {
    short_code: 'preview',
    og_title: 'A <b>"sale"</b>',
    og_description: 'Half & half',
    og_image_url: 'https://example.com/a.png',
  });
  await rows.link(appId, {
    short_code: 'picture',
    title: 'for the team only',
    og_image_url: 'https://example.com/a.png',
  });
  await rows.link(appId, {
    short_code: 'old',
    expires_at: new Date(Date.now() - 1000),
    expired_url: 'https://example.com/over',
  });
  await rows.link(appId, { short_code: 'older', expires_at: new Date(Date.now() - 1000) });
  await rows.link(appId, { short_code: 'archived', archived: true, fallback_url: 'https://example.com/' });
  await rows.link(appId, { short_code: 'deleted', deleted_at: new Date(), fallback_url: 'https://example.com/' });
  await rows.link(bare, { short_code: 'nowhere' });
  await addImportedLinks(appId);
  edge = await TestEdge.start({ redis: redis.url, postgres: database.url });
});

afterAll(async () => {
  await edge.stop();
  await rows.db.close();
  await redis.stop();
  await database.stop();
});

const printedCodes = ['q', 'sale/summer', 'a.b~c', 'café', '👩‍🚀', 'x'.repeat(190)];

async function addImportedLinks(appId: string): Promise<void> {
  for (const code of printedCodes)
    links[code] = await rows.link(appId, { short_code: code, fallback_url: 'https://example.com/printed' });
  await addCode(appId, 'promo/été', links['summer'] ?? '');
  const quiet = await rows.app({ host: quietHost, settings: { privacy_mode: 'full_ip', codes_ignore_case: true } });
  links['quiet'] = await rows.link(quiet, { short_code: 'Flyer/É1', fallback_url: 'https://example.com/quiet' });
  await addCode(quiet, 'Second', links['quiet']);
}

async function addCode(app_id: string, code: string, link_id: string): Promise<void> {
  const values = [rows.organization_id, app_id, code, link_id];
  await rows.db.execute(
    'INSERT INTO link_codes (organization_id, app_id, code, link_id, created_at) VALUES ($1, $2, $3, $4, now())',
    values,
  );
}

/** The beginning of the response to bytes that no HTTP client would send. */
function sendRaw(port: number, bytes: Uint8Array): Promise<string> {
  return new Promise((done, fail) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('error', fail);
    socket.once('data', (answer) => {
      done(answer.toString());
      socket.destroy();
    });
  });
}

const visitOf = async (at: string, path: string) => {
  const before = edge.clicks().length;
  const { status } = await edge.get(at, path, { 'user-agent': desktop });
  return [
    status,
    ...edge
      .clicks()
      .slice(before)
      .map(({ link_id }) => link_id),
  ];
};

test('printed codes of other services are found in every encoding, cached or not', async () => {
  for (const code of printedCodes) {
    const paths = [pathOfCode(code), `/${encodeURIComponent(code)}`, `/${encodeURIComponent(code.normalize('NFD'))}`];
    for (const path of [...paths, ...paths]) expect(await visitOf(host, path), path).toEqual([302, links[code]]);
  }
  for (const path of ['/sale%252Fsummer', '/sale/summer//', '/caf%E9', '/Q', '/sale/..%2Fq'])
    expect(await visitOf(host, path), path).toEqual([404]);
});

test('non-ASCII bytes that a client did not escape are read as UTF-8; invalid ones name no link', async () => {
  for (const [name, answer] of [
    [Buffer.from('café'), '302'],
    [Buffer.from('café', 'latin1'), '404'],
  ] as const) {
    const request = Buffer.concat([Buffer.from('GET /'), name, Buffer.from(` HTTP/1.1\r\nHost: ${host}\r\n\r\n`)]);
    expect((await sendRaw(edge.port, request)).slice(9, 12)).toBe(answer);
  }
});

test('a link is found by each of its codes, and a change applies to all of them', async () => {
  const path = pathOfCode('promo/été');
  for (let n = 0; n < 2; n++) expect(await visitOf(host, path)).toEqual([302, links['summer']]);
  expect(await rows.db.execute(`UPDATE links SET title = 'Changed' WHERE id = $1`, [links['summer']])).toBe(1);
  const noted = await rows.db.query<{ short_code: string }>('SELECT short_code FROM outbox WHERE host = $1', [host]);
  expect(noted.map(({ short_code }) => short_code).sort()).toEqual(['promo/été', 'summer']);
});

test('if codes ignore case, each is found in any case, by every visit', async () => {
  for (const path of ['/flyer/%C3%891', '/FLYER/%C3%891', '/Flyer/%C3%891', '/SECOND', '/second', '/SECOND'])
    expect(await visitOf(quietHost, path), path).toEqual([302, links['quiet']]);
  // Non-ASCII letters keep their case.
  expect(await visitOf(quietHost, '/flyer/%C3%A91')).toEqual([404]);
});

const escaped = (letter: string) => `%${letter.charCodeAt(0).toString(16)}`;

test('a link that was stored under a reserved name is not served', async () => {
  const bare = await rows.app({ host: 'reserved.localhost' });
  const codes = ['.well-known/assetlinks.json', 'apple-app-site-association', 'robots.txt', '-/tap', 'healthz/x'];
  for (const code of codes) await rows.link(bare, { short_code: code, fallback_url: 'https://evil.example/' });
  for (const code of codes) {
    for (const path of [`/${code}`, `/${encodeURIComponent(code)}`, `/${code.replace(/[a-z]/, escaped)}`]) {
      for (let n = 0; n < 2; n++) {
        const reply = await edge.get('reserved.localhost', path, { 'user-agent': desktop });
        expect([reply.status === 302, reply.headers.location], path).toEqual([false, undefined]);
      }
    }
  }
});

test('a person who opens a link is redirected, and the click is in the journal when the answer arrives', async () => {
  for (const isCached of [false, true]) {
    const before = edge.clicks().length;
    const reply = await edge.get(host, '/summer', {
      'user-agent': desktop,
      'accept-language': 'de-DE,de;q=0.9',
      referer: 'https://news.example/',
    });
    expect(reply.status).toBe(302);
    expect(reply.headers.location).toBe('https://example.com/sale?ref=link&utm_source=mail&utm_campaign=summer+26');
    expect(reply.headers['cache-control']).toBe('private, no-store');
    expect(edge.clicks().slice(before), `cached: ${isCached}`).toMatchObject([
      {
        v: 1,
        click_id: expect.stringMatching(/^clk_/),
        organization_id: rows.organization_id,
        app_id: appId,
        link_id: links['summer'],
        ip: '127.0.0.1',
        privacy_mode: 'full_ip',
        user_agent: desktop,
        language: 'de-DE,de;q=0.9',
        referrer: 'https://news.example',
        campaign: 'summer-26',
        utm_source: 'mail',
        trigger: 'link',
      },
    ]);
  }
});

test('the visitor’s query is passed on and overrides the defaults of the link, also in the record', async () => {
  const before = edge.clicks().length;
  const query = 'utm_source=friend&gclid=7&a=%20x&a=y&url=https://evil.example/';
  const reply = await edge.get(host, `/summer?${query}`, { 'user-agent': desktop });
  const location = new URL(reply.headers.location ?? '');
  expect(location.origin + location.pathname).toBe('https://example.com/sale');
  expect([...location.searchParams]).toEqual([
    ['ref', 'link'],
    ['utm_source', 'friend'],
    ['gclid', '7'],
    ['a', ' x'],
    ['a', 'y'],
    ['url', 'https://evil.example/'],
    ['utm_campaign', 'summer 26'],
  ]);
  expect(edge.clicks().slice(before)).toMatchObject([{ query, utm_source: 'friend', utm_campaign: 'summer 26' }]);
});

test.each([
  ['urls', iphone, 'https://i.example/'],
  ['urls', pixel, 'https://a.example/x'],
  ['urls', desktop, 'https://example.com/get?v=1'],
  ['summer', iphone, 'https://apps.apple.com/app/id123456789'],
])('%s on %s leads to %s…', async (code, userAgent, location) => {
  const reply = await edge.get(host, `/${code}`, { 'user-agent': userAgent });
  expect([reply.status, reply.headers.location]).toEqual([302, location]);
});

test('Android without its own URL goes to the Play page with the id of the recorded click', async () => {
  const reply = await edge.get(host, '/summer', { 'user-agent': pixel });
  const url = new URL(reply.headers.location ?? '');
  expect(url.origin + url.pathname).toBe('https://play.google.com/store/apps/details');
  expect(url.searchParams.get('id')).toBe('com.example.app');
  const click = edge.clicks().at(-1);
  expect(url.search).toContain(`&referrer=click_id%3D${click?.['click_id']}%26utm_source%3Dmail`);
  const referrer = new URLSearchParams(url.searchParams.get('referrer') ?? '');
  expect(Object.fromEntries(referrer)).toEqual({
    click_id: click?.['click_id'],
    utm_source: 'mail',
    utm_campaign: 'summer 26',
  });
});

test('HEAD is answered like GET and is not a click', async () => {
  const before = edge.clicks().length;
  const reply = await edge.get(host, '/summer', { 'user-agent': desktop }, 'HEAD');
  expect(reply.status).toBe(302);
  expect(reply.headers.location).toBe('https://example.com/sale?ref=link&utm_source=mail&utm_campaign=summer+26');
  expect((await edge.get(host, '/unknown', {}, 'HEAD')).status).toBe(404);
  expect((await edge.get(host, '/preview', { 'user-agent': facebook }, 'HEAD')).status).toBe(200);
  expect(edge.clicks().length).toBe(before);
});

test('a preview crawler gets a page with escaped tags, and is recorded as a preview; a person is redirected', async () => {
  const reply = await edge.get(host, '/preview', { 'user-agent': facebook });
  expect(reply.status).toBe(200);
  expect(reply.headers['content-type']).toBe('text/html; charset=utf-8');
  expect(reply.body).toContain('<meta property="og:title" content="A &lt;b&gt;&quot;sale&quot;&lt;/b&gt;">');
  expect(reply.body).toContain('<meta property="og:image" content="https://example.com/a.png">');
  expect(reply.body).toContain('<meta name="twitter:card" content="summary_large_image">');
  expect(reply.body).not.toContain('<b>');
  const untitled = await edge.get(host, '/picture', { 'user-agent': facebook });
  expect(untitled.body).toContain(`<meta property="og:title" content="${host}">`);
  expect(untitled.body).not.toContain('for the team only');
  expect(edge.clicks().at(-1)).toMatchObject({ is_preview: true, user_agent: facebook });
  expect((await edge.get(host, '/preview', { 'user-agent': desktop })).status).toBe(302);
  expect(edge.clicks().at(-1)).not.toHaveProperty('is_preview');
  expect((await edge.get(host, '/summer', { 'user-agent': facebook })).status).toBe(302);
});

test('a prefetch is redirected and recorded as a prefetch', async () => {
  await edge.get(host, '/summer', { 'user-agent': desktop, 'sec-purpose': 'prefetch;prerender' });
  expect(edge.clicks().at(-1)).toMatchObject({ is_prefetch: true });
});

test('an expired link leads to its expired_url; without one it is gone', async () => {
  const reply = await edge.get(host, '/old');
  expect([reply.status, reply.headers.location]).toEqual([302, 'https://example.com/over']);
  expect((await edge.get(host, '/older')).status).toBe(410);
});

test.each([
  ['unknown', host, '/nosuch'],
  ['archived', host, '/archived'],
  ['deleted', host, '/deleted'],
  ['of another host', 'bare.localhost', '/summer'],
  ['on an unknown host', 'nobody.localhost', '/summer'],
  ['without any destination', 'bare.localhost', '/nowhere'],
  ['with a path that cannot be a code', host, '/a//b'],
  ['too short', host, '/ab'],
  ['in other case', host, '/SUMMER'],
  ['encoded twice', host, '/%2573ummer'],
])('a link that is %s gets a small 404 page, identical each time', async (_, where, path) => {
  const before = edge.clicks().length;
  for (let turn = 0; turn < 2; turn++) {
    const reply = await edge.get(where, path, { accept: 'text/html' });
    expect([reply.status, reply.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
    expect(reply.body.length).toBeLessThan(1500);
    const json = await edge.get(where, path, { accept: 'application/json' });
    expect([json.status, JSON.parse(json.body).error.code]).toEqual([404, 'NOT_FOUND']);
  }
  expect(edge.clicks().length).toBe(before);
});

test('an app can have its own pages for unknown and expired links, in which no scripts run', async () => {
  const pages = { not_found: '<h1>Nothing here</h1><script>alert(1)</script>', expired: '<h1>Over</h1>' };
  const paged = await rows.app({ host: 'paged.localhost', pages });
  await rows.link(paged, { short_code: 'archived', archived: true, fallback_url: 'https://example.com/' });
  await rows.link(paged, { short_code: 'over', expires_at: new Date(Date.now() - 1000) });
  await rows.link(paged, { short_code: 'nowhere' });
  for (const [path, status, html] of [
    ...['/nosuch', '/a//b', '/archived', '/nowhere', '/'].map((path) => [path, 404, pages.not_found] as const),
    ['/over', 410, pages.expired] as const,
  ])
    for (const isCached of [false, true]) {
      const reply = await edge.get('paged.localhost', path, { accept: 'text/html' });
      expect([reply.status, reply.body], `${path} ${isCached}`).toEqual([status, html]);
      const policy = String(reply.headers['content-security-policy']);
      expect(policy).toMatch(/^default-src 'none'; .*form-action 'none'; .*; sandbox allow-popups /);
      expect(policy).not.toContain('script');
      expect(reply.headers['cache-control']).toBe('private, no-store');
      const json = await edge.get('paged.localhost', path, { accept: 'application/json' });
      expect([json.status, JSON.parse(json.body).error.code]).toEqual([status, 'NOT_FOUND']);
    }
  const head = await edge.get('paged.localhost', '/nosuch', {}, 'HEAD');
  expect([head.status, head.headers['content-length']]).toEqual([404, String(pages.not_found.length)]);
});

test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])('%s is rejected with the allowed methods', async (method) => {
  const reply = await edge.get(host, '/summer', {}, method);
  expect([reply.status, reply.headers.allow]).toEqual([405, 'GET, HEAD']);
});

test('each host has the association files of its app, but only if the app has the required settings', async () => {
  for (const path of ['/.well-known/apple-app-site-association', '/apple-app-site-association']) {
    const reply = await edge.get(host, path);
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json']);
    expect(JSON.parse(reply.body).applinks.details[0].appIDs).toEqual(['TEAM123456.com.example.app']);
    expect((await edge.get('bare.localhost', path)).status).toBe(404);
    expect((await edge.get('nobody.localhost', path)).status).toBe(404);
  }
  const reply = await edge.get(host, '/.well-known/assetlinks.json');
  expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json']);
  expect(JSON.parse(reply.body)[0].target).toEqual({
    namespace: 'android_app',
    package_name: 'com.example.app',
    sha256_cert_fingerprints: ['AA:BB'],
  });
  expect((await edge.get('bare.localhost', '/.well-known/assetlinks.json')).status).toBe(404);
});

test('robots are allowed, there is no icon, and the bare host leads to the fallback of the app', async () => {
  expect((await edge.get(host, '/robots.txt')).status).toBe(200);
  expect((await edge.get(host, '/favicon.ico')).status).toBe(204);
  const root = await edge.get(host, '/?a=1');
  expect([root.status, root.headers.location]).toEqual([302, 'https://example.com/get?v=1&a=1']);
  expect((await edge.get('bare.localhost', '/')).status).toBe(404);
});

test.each([
  ['anonymize_ip', /^203\.0\.113\.0~[\w-]{16}$/],
  ['no_ip', /^203\.0\.113\.0~[\w-]{16}$/],
] as const)(
  'for an app with %s, no byte of a visitor’s address reaches the journal, nor the hidden parameters of its query',
  async (privacy_mode, ip) => {
    const appHost = `${privacy_mode.replace('_', '-')}.localhost`;
    const app = await rows.app({ host: appHost, settings: { privacy_mode } });
    await rows.link(app, { short_code: 'open', fallback_url: 'https://example.com/' });
    const behind = await TestEdge.start(
      { redis: redis.url, postgres: database.url },
      { trustedProxies: ['127.0.0.0/8'] },
    );
    const headers = {
      'x-forwarded-for': '203.0.113.57',
      referer: 'https://ada:s3cret-word@mail.example/inbox/s3cret-page?Token=s3cret-token',
    };
    // The second visit takes the hot path of a link in memory.
    for (let visit = 0; visit < 2; visit++) {
      const answer = await get(behind.port, appHost, '/open?a=b&Token=s3cret&em%61il=s3cret@example.com', headers);
      expect(answer.headers.location).toBe('https://example.com/?a=b&Token=s3cret&em%61il=s3cret@example.com');
    }
    for (const click of behind.clicks()) {
      expect(click).toMatchObject({ ip: expect.stringMatching(ip), query: 'a=b', referrer: 'https://mail.example' });
    }
    const folder = join(behind.folder, 'journal');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true }).filter((one) =>
      one.isFile(),
    );
    const bytes = Buffer.concat(files.map((file) => readFileSync(join(file.parentPath, file.name)))).toString('latin1');
    expect(bytes).toContain('203.0.113.0');
    expect(bytes).not.toMatch(/203\.0\.113\.57|s3cret/);
    await behind.stop();
  },
);

test('the port in the Host header and the case of the host name do not matter', async () => {
  expect((await edge.get('MyApp.LocalHost:8080', '/summer')).status).toBe(302);
});

test('the visitor’s address is taken only from trusted proxies', async () => {
  await edge.get(host, '/summer', { 'x-forwarded-for': '203.0.113.9' });
  expect(edge.clicks().at(-1)).toMatchObject({ ip: '127.0.0.1' });
  const behind = await TestEdge.start(
    { redis: redis.url, postgres: database.url },
    { trustedProxies: ['127.0.0.0/8'] },
  );
  await get(behind.port, host, '/summer', { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' });
  expect(behind.clicks().at(-1)).toMatchObject({ ip: '203.0.113.9' });
  for (const [lines, ip] of [
    [['198.51.100.1', '203.0.113.9'], '203.0.113.9'],
    [['198.51.100.1', '203.0.113.9', '127.0.0.2'], '203.0.113.9'],
    [['198.51.100.1, 198.51.100.2', '203.0.113.9, 127.0.0.2'], '203.0.113.9'],
  ] as const) {
    await get(behind.port, host, '/summer', { 'x-forwarded-for': [...lines] });
    expect(behind.clicks().at(-1), lines.join(' | ')).toMatchObject({ ip });
  }
  await behind.stop();
});

test('with a secret, another user of the proxy’s machine cannot claim the address of a visitor', async () => {
  const secret = 'a secret of the proxy with enough characters';
  const behind = await TestEdge.start(
    { redis: redis.url, postgres: database.url },
    { trustedProxies: ['127.0.0.0/8'], proxySecret: secret },
  );
  for (const [given, ip] of [
    [undefined, '127.0.0.1'],
    ['', '127.0.0.1'],
    [`${secret.slice(0, -1)}S`, '127.0.0.1'],
    [`${secret}s`, '127.0.0.1'],
    [secret, '203.0.113.9'],
  ] as const) {
    const proof = given === undefined ? {} : { 'x-signpost-proxy': given };
    await get(behind.port, host, '/summer', { 'x-forwarded-for': '203.0.113.9', ...proof });
    expect(behind.clicks().at(-1), given).toMatchObject({ ip });
  }
  await behind.stop();
});

async function newCertificates(name: string) {
  const { certFile, keyFile } = await certificate(join(edge.folder, name), 'localhost');
  const { certificates } = readCertificates({ TLS_CERT_FILE: [certFile], TLS_KEY_FILE: [keyFile] });
  return certificates.map((one) => ({ ...one, serial: new X509Certificate(readFileSync(certFile)).serialNumber }));
}

function getSecurely(port: number, path: string) {
  return new Promise<{ statusCode: number | undefined; headers: IncomingHttpHeaders; serial: string }>((done, fail) => {
    const options = { port, host: '127.0.0.1', path, headers: { host }, rejectUnauthorized: false, agent: false };
    request(options, (answer) => {
      const { statusCode, headers } = answer.resume();
      done({ statusCode, headers, serial: (answer.socket as TLSSocket).getPeerCertificate().serialNumber });
    })
      .on('error', fail)
      .end();
  });
}

test('TLS answers are the same as without TLS, also after a change of certificates, and state how long browsers must use HTTPS', async () => {
  const certificates = await newCertificates('first');
  const port = edge.server.listen({ host: '127.0.0.1', port: 0, certificates, hstsSeconds: 31_536_000 });
  const reply = await getSecurely(port, '/summer');
  expect([reply.statusCode, reply.headers.location]).toEqual([
    302,
    'https://example.com/sale?ref=link&utm_source=mail&utm_campaign=summer+26',
  ]);
  expect(reply.headers['strict-transport-security']).toBe('max-age=31536000');
  const replacement = await newCertificates('second');
  await edge.server.prepare(replacement)();
  const later = await getSecurely(port, '/summer');
  expect([later.statusCode, later.headers]).toMatchObject([302, { location: reply.headers.location }]);
  expect([reply.serial === later.serial, later.serial]).toEqual([false, replacement[0]?.serial]);
});

test('every answer has nosniff, none names the server, and without TLS none mentions HTTPS', async () => {
  for (const path of ['/summer', '/nothing-here', '/robots.txt', '/favicon.ico', '/', '/x/y']) {
    const { headers } = await get(edge.port, host, path);
    expect(headers['x-content-type-options'], path).toBe('nosniff');
    for (const name of ['server', 'uwebsockets', 'strict-transport-security'])
      expect(headers[name], path).toBeUndefined();
  }
});

test('a full journal does not prevent redirects, and the missing records are counted', async () => {
  const full = await TestEdge.start({ redis: redis.url, postgres: database.url }, { journalBytesMax: 1 });
  await get(full.port, host, '/summer');
  const reply = await get(full.port, host, '/summer');
  expect(reply.status).toBe(302);
  expect(full.edge.counters.not_recorded).toBeGreaterThan(0);
  await full.stop();
});
