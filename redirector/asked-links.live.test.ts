import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { learnLimits } from '#api/migration/link-learner.ts';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { askChannel, askingAgent, encodeAsk } from '#common/links/link-asks.ts';
import { testApp } from '#common/testing/link-snapshots.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { AskedLinks, askLimits } from './asked-links.ts';
import { TestEdge, until } from './testing/running-edge.ts';

/** Stands for a public address, while 127.0.0.1 counts as internal. */
const outside = '127.0.0.3';
const shop = 'https://www.example.com';
const home = `${shop}/home`;
const browser = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };

let dns: DnsForTest;
let old: Receiver;
let inside: Server;
let reachedInside = 0;
let api: ApiForTest;
let edges: TestEdge[];
let owner: Member;

beforeAll(async () => {
  [dns, old] = await Promise.all([dnsForTest(), receiverForTest(outside)]);
  inside = createServer(() => reachedInside++).on('error', () => undefined);
  inside.listen(old.port, '127.0.0.1');
  dns.addresses.set('old.example', [outside]);
  dns.addresses.set('rebound.example', ['127.0.0.1']);
  api = await apiForTest({ DNS_SERVERS: dns.address, WEBHOOK_ALLOWED_NETWORKS: outside, WEBHOOK_HTTP: 'true' });
  await api.linkLearner.start();
  const urls = { redis: api.redisServer.url, postgres: api.databaseUrl };
  edges = [await TestEdge.start(urls), await TestEdge.start(urls)];
  owner = await api.member();
  await until(async () => (await api.redis.commands.publish(askChannel, '')) > 0, 'the API listens');
  await until(() => edges.every((edge) => edge.cache.isSubscribed), 'changes arrive');
});
beforeEach(() => {
  old.received.length = 0;
  old.answer = (response, { path }) =>
    path.startsWith('/x')
      ? response.writeHead(404).end('no such link')
      : response.writeHead(301, { location: `${shop}${path}?from=old` }).end();
});
afterAll(async () => {
  for (const edge of edges) await edge.stop();
  await api.stop();
  await Promise.all([old.stop(), dns.stop()]);
  inside.close();
  expect(reachedInside).toBe(0);
});

const edgeAt = (at: number) => edges[at % 2] ?? expect.unreachable('two edges run');
const codesAsked = () => old.received.map(({ path }) => path.slice(1)).filter((code) => !code.startsWith('x'));
const clicks = () => edges.flatMap((edge) => edge.clicks());

/** An app that is being migrated. The API accepts only https for the old service, so the row is changed directly. */
async function newApp(migration: object = {}, more: object = {}) {
  const setting = { destination_hosts: ['www.example.com'], ...migration };
  const url = 'https://old.example/{code}';
  const given = { name: 'Move', fallback_url: home, settings: { migration: { url, ...setting } }, ...more };
  const { body, status } = await owner.call('POST', '/apps', given);
  expect(status, JSON.stringify(body)).toBe(201);
  const plain = String(body.settings.migration.url)
    .replace('https:', 'http:')
    .replace(/^http:\/\/[^/]+/, (origin) => `${origin}:${old.port}`);
  await api.db.execute(
    `UPDATE apps SET settings = jsonb_set(settings, '{migration,url}', to_jsonb($2::text)) WHERE id = $1`,
    [body.id, plain],
  );
  await edgeAt(0).announce({ kind: 'app', host: body.host });
  return { id: String(body.id), host: String(body.host) };
}

async function visit(host: string, path: string, { at = 0, headers = {}, method = 'GET' } = {}) {
  const reply = await edgeAt(at).get(host, path, { ...browser, ...headers }, method);
  return [reply.status, reply.headers.location];
}

const linksOf = (id: string) =>
  api.db.query<{ id: string; short_code: string; source: string; fallback_url: string; path: string }>(
    'SELECT * FROM links WHERE app_id = $1 ORDER BY short_code',
    [id],
  );
const unlearnedOf = (id: string) =>
  api.db.query<object>('SELECT short_code, reason, detail FROM unlearned_codes WHERE app_id = $1 ORDER BY short_code', [
    id,
  ]);

test('a hundred concurrent first visits of a code, on two redirectors, send one request and create one link with their clicks', async () => {
  const app = await newApp();
  const visits = Array.from({ length: 100 }, (_, at) => visit(app.host, '/summer?utm_source=print', { at }));
  for (const answer of await Promise.all(visits))
    expect(answer).toEqual([302, `${shop}/summer?from=old&utm_source=print`]);
  expect(codesAsked()).toEqual(['summer']);
  const [link, ...others] = await linksOf(app.id);
  expect(others).toEqual([]);
  expect(link).toMatchObject({ short_code: 'summer', source: 'learned', fallback_url: `${shop}/summer?from=old` });
  expect(clicks().filter(({ link_id }) => link_id === link?.id)).toHaveLength(100);
  // From now on it is an ordinary link.
  expect((await visit(app.host, '/summer'))[0]).toBe(302);
  expect(codesAsked()).toEqual(['summer']);
});

test('the old service receives the code unchanged, our user agent, and no data of the visitor', async () => {
  const app = await newApp();
  await visit(app.host, '/caf%C3%A9/a.b?secret=1', { headers: { cookie: 'a=b', referer: 'https://x.example/y' } });
  const [asked] = old.received.filter(({ path }) => path.startsWith('/caf'));
  expect(asked?.path).toBe('/caf%C3%A9/a.b');
  expect(Object.keys(asked?.headers ?? {}).sort()).toEqual(['accept', 'connection', 'host', 'user-agent']);
  expect(asked?.headers['user-agent']).toBe(askingAgent);
  expect((await linksOf(app.id)).map(({ short_code }) => short_code)).toEqual(['café/a.b']);
});

test('an answer that is not a redirect to an allowed host creates no link, leads to the fallback, and is listed with its reason', async () => {
  const app = await newApp();
  const answers: Record<string, [number, Record<string, string>?]> = {
    gone: [410],
    page: [200],
    nowhere: [302],
    broken: [502],
    elsewhere: [302, { location: 'https://evil.example/' }],
    subdomain: [302, { location: 'https://www.example.com.evil.example/' }],
    plain: [302, { location: 'http://www.example.com/' }],
    script: [302, { location: 'javascript:alert(1)' }],
    loop: [302, { location: `https://${app.host}/loop` }],
    relative: [302, { location: '/other' }],
    user: [302, { location: 'https://a:b@www.example.com/' }],
  };
  old.answer = (response, { path }) => {
    const [status, headers] = answers[path.slice(1)] ?? [404];
    response.writeHead(status, headers).end('x'.repeat(100_000));
  };
  for (const code of Object.keys(answers))
    expect([code, ...(await visit(app.host, `/${code}`))]).toEqual([code, 302, home]);
  expect(await linksOf(app.id)).toEqual([]);
  await expect.poll(() => unlearnedOf(app.id)).toHaveLength(11);
  expect(await unlearnedOf(app.id)).toEqual([
    { short_code: 'broken', reason: 'refused', detail: '502' },
    { short_code: 'elsewhere', reason: 'foreign_host', detail: 'evil.example' },
    { short_code: 'gone', reason: 'unknown', detail: '410' },
    { short_code: 'loop', reason: 'own_host', detail: app.host },
    { short_code: 'nowhere', reason: 'no_location', detail: '302' },
    { short_code: 'page', reason: 'page', detail: '200' },
    { short_code: 'plain', reason: 'bad_destination', detail: expect.stringContaining('https') },
    { short_code: 'relative', reason: 'foreign_host', detail: 'old.example' },
    { short_code: 'script', reason: 'foreign_host', detail: '' },
    { short_code: 'subdomain', reason: 'foreign_host', detail: 'www.example.com.evil.example' },
    { short_code: 'user', reason: 'bad_destination', detail: expect.any(String) },
  ]);
  // A negative answer is cached, by this redirector and by the others.
  const asked = old.received.length;
  expect(await visit(app.host, '/gone')).toEqual([302, home]);
  expect(await visit(app.host, '/gone', { at: 1 })).toEqual([302, home]);
  expect(old.received).toHaveLength(asked);
});

test('if a service redirects codes that do not exist, these are not learned, but its real links are', async () => {
  const app = await newApp();
  old.answer = (response, { path }) =>
    response
      .writeHead(302, { location: path === '/real' ? `${shop}/real` : `${shop}/?missing=${path.slice(1)}` })
      .end();
  expect(await visit(app.host, '/guess')).toEqual([302, home]);
  expect(await visit(app.host, '/real')).toEqual([302, `${shop}/real`]);
  expect((await linksOf(app.id)).map(({ short_code }) => short_code)).toEqual(['real']);
  await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'guess', reason: 'unknown' }]);
});

test.each<[string, (code: string) => string]>([
  ['a random number', () => `/?click_id=${randomUUID()}`],
  ['a value that changes with time', () => `/?t=${Math.floor(old.received.length / 10)}`],
  ['the code in base64', (code) => `/?missing=${Buffer.from(code).toString('base64url')}`],
  ['the code in another case', (code) => `/missing/${code.toUpperCase()}`],
  ['the code, whatever it is', (code) => `/?missing=${code}`],
])('no link is learned from guessed codes if the redirect of codes that do not exist has %s', async (_, placeOf) => {
  const app = await newApp();
  old.answer = (response, { path }) =>
    response.writeHead(302, { location: path === '/real' ? `${shop}/a/real` : shop + placeOf(path.slice(1)) }).end();
  const guesses = [...Array.from({ length: 20 }, (_, n) => `Stranger${n}`), 'missing', 'www', 'example', 'stranger/20'];
  for (const code of guesses) expect([code, ...(await visit(app.host, `/${code}`))]).toEqual([code, 302, home]);
  expect(await linksOf(app.id)).toEqual([]);
  await expect.poll(() => unlearnedOf(app.id)).toHaveLength(guesses.length);
  expect(await visit(app.host, '/real')).toEqual([302, `${shop}/a/real`]);
});

test('nothing is learned from a service that redirects made-up codes to different hosts', async () => {
  const app = await newApp();
  let asked = 0;
  old.answer = (response, { path }) => {
    const host = path.startsWith('/x') && asked++ % 2 === 1 ? 'https://other.example' : shop;
    response.writeHead(302, { location: `${host}/?missing=${path.slice(1)}` }).end();
  };
  expect(await visit(app.host, '/summer')).toEqual([302, home]);
  expect(asked).toBe(2);
  await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'summer', reason: 'refused' }]);
});

test('an app learns a limited number of links per day; beyond it, no requests are sent', async () => {
  const app = await newApp();
  expect(await visit(app.host, '/first')).toEqual([302, `${shop}/first?from=old`]);
  const [key = ''] = await api.redis.commands.keys(`learned:${app.id}:*`);
  expect(await api.redis.commands.get(key)).toBe('1');
  expect(await api.redis.commands.pttl(key)).toBeGreaterThan(0);
  await api.redis.commands.set(key, learnLimits.perDayMax - 1, 'KEEPTTL');
  expect(await visit(app.host, '/last')).toEqual([302, `${shop}/last?from=old`]);
  old.received.length = 0;
  expect(await visit(app.host, '/beyond')).toEqual([302, home]);
  expect(old.received).toEqual([]);
  await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'beyond', reason: 'limit' }]);
});

test('http destinations are learned as https if the app is configured to do so', async () => {
  const app = await newApp({ upgrade_http: true });
  old.answer = (response, { path }) =>
    path.startsWith('/x')
      ? response.writeHead(404).end()
      : response.writeHead(302, { location: 'http://www.example.com/a' }).end();
  expect(await visit(app.host, '/plain')).toEqual([302, `${shop}/a`]);
});

test('via connects to another address with the original host name, for services that route by it', async () => {
  const app = await newApp({ url: 'https://own.example/{code}', via: 'old.example' });
  expect((await visit(app.host, '/summer'))[1]).toBe(`${shop}/summer?from=old`);
  expect(old.received[0]?.headers.host).toBe(`own.example:${old.port}`);
});

test('names that resolve to internal addresses, or do not resolve, are not connected to', async () => {
  for (const [url, reason] of [
    ['https://rebound.example/{code}', 'address_not_allowed'],
    ['https://unknown.example/{code}', 'name_not_resolved'],
    ['https://127.0.0.1/{code}', 'address_not_allowed'],
  ] as const) {
    const app = await newApp({ url });
    expect(await visit(app.host, '/summer')).toEqual([302, home]);
    await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'summer', reason }]);
  }
  expect(reachedInside).toBe(0);
});

test('a service that hangs delays its visit by a second and a half and no others, and its late answer is learned', async () => {
  const app = await newApp();
  const other = await newApp();
  let answerLate: () => void = () => undefined;
  old.answer = (response, { path }) => {
    if (path.startsWith('/x')) response.writeHead(404).end();
    else if (path === '/slow') answerLate = () => response.writeHead(302, { location: `${shop}/slow` }).end();
    else response.writeHead(302, { location: `${shop}${path}` }).end();
  };
  const begun = Date.now();
  const slow = visit(app.host, '/slow');
  await expect.poll(() => old.received.some(({ path }) => path === '/slow')).toBe(true);
  expect(await visit(other.host, '/quick')).toEqual([302, `${shop}/quick`]);
  expect(await visit(app.host, '/quick')).toEqual([302, `${shop}/quick`]);
  expect(await slow).toEqual([302, home]);
  expect(Date.now() - begun).toBeGreaterThanOrEqual(askLimits.waitMs - 50);
  answerLate();
  await expect.poll(() => visit(app.host, '/slow')).toEqual([302, `${shop}/slow`]);
});

test('bots, prefetches and HEAD send no requests and get 503, and the product’s own requests are not forwarded', async () => {
  const app = await newApp();
  const bot = { 'user-agent': 'Googlebot/2.1 (+http://www.google.com/bot.html)' };
  expect(await visit(app.host, '/summer', { headers: bot })).toEqual([503, undefined]);
  expect(await visit(app.host, '/summer', { headers: { 'sec-purpose': 'prefetch' } })).toEqual([503, undefined]);
  expect(await visit(app.host, '/summer', { method: 'HEAD' })).toEqual([503, undefined]);
  expect(await visit(app.host, '/summer', { headers: { 'user-agent': askingAgent } })).toEqual([404, undefined]);
  expect(old.received).toEqual([]);
});

test('an app without the setting, and another organization’s claim of the host, send no requests', async () => {
  const off = await owner.call('POST', '/apps', { name: 'Off', fallback_url: home });
  expect(await visit(off.body.host, '/summer')).toEqual([404, undefined]);
  const victim = await newApp({ url: 'https://unknown.example/{code}' });
  const stranger = await api.member();
  const claim = {
    name: 'Claim',
    host: 'printed.example',
    settings: { migration: { url: 'https://old.example/{code}', destination_hosts: ['www.example.com'] } },
  };
  const { body } = await stranger.call('POST', '/apps', claim);
  expect(await visit('printed.example', '/summer')).toEqual([404, undefined]);
  // Not even with a forged message: its host is not verified, and an app belongs to its organization and host.
  for (const ask of [
    { organization_id: stranger.organization_id, app_id: String(body.id), host: 'printed.example', code: 'summer' },
    { organization_id: stranger.organization_id, app_id: victim.id, host: victim.host, code: 'summer' },
    { organization_id: owner.organization_id, app_id: victim.id, host: 'printed.example', code: 'summer' },
  ])
    await api.redis.commands.publish(askChannel, encodeAsk(ask));
  const probe = await newApp();
  await visit(probe.host, '/after');
  expect(codesAsked()).toEqual(['after']);
  expect([...(await linksOf(String(body.id))), ...(await linksOf(victim.id))]).toEqual([]);
});

test('without an API, visits of unknown codes go to the fallback at once, and a code left by a killed process is learned later', async () => {
  const app = await newApp();
  await api.linkLearner.stop();
  const begun = performance.now();
  expect(await visit(app.host, '/early')).toEqual([302, home]);
  expect(performance.now() - begun).toBeLessThan(askLimits.waitMs);
  await api.linkLearner.start();
  await expect.poll(() => api.redis.commands.publish(askChannel, '')).toBeGreaterThan(0);
  // The state that a process leaves if it dies while asking: the claim, and no link.
  const { body } = await owner.call('GET', `/apps/${app.id}`);
  expect(body.settings.migration.url).toContain('old.example');
  await visit(app.host, '/named');
  const [key = ''] = await api.redis.commands.keys(`learn:${app.id}:*:named`);
  expect(await api.redis.commands.pttl(key)).toBeLessThanOrEqual(learnLimits.claimMs);
  const abandoned = key.replace(/named$/, 'abandoned');
  await api.redis.commands.set(abandoned, 'asking', 'PX', 1_600);
  expect(await visit(app.host, '/abandoned')).toEqual([302, home]);
  await expect.poll(() => api.redis.commands.exists(abandoned)).toBe(0);
  expect(await visit(app.host, '/abandoned', { at: 1 })).toEqual([302, `${shop}/abandoned?from=old`]);
});

test('the code of a deleted link is not learned again', async () => {
  const app = await newApp();
  await visit(app.host, '/summer');
  const [link] = await linksOf(app.id);
  expect((await owner.call('DELETE', `/links/${link?.id}`)).status).toBe(200);
  await api.redis.commands.del(...(await api.redis.commands.keys(`learn:${app.id}:*`)));
  await expect.poll(() => visit(app.host, '/summer')).toEqual([302, home]);
  await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'summer', reason: 'deleted' }]);
});

test('beyond the limit per minute, over all processes, no requests are sent and visits go to the fallback', async () => {
  const app = await newApp();
  const key = `limit:migration:${app.id}`;
  const { commands } = api.redis;
  await commands.hset(key, { count: learnLimits.perMinuteMax, reset_ms: Date.now() + 60_000 });
  await commands.pexpire(key, 60_000);
  expect(await visit(app.host, '/summer')).toEqual([302, home]);
  expect(old.received).toEqual([]);
  await expect.poll(() => unlearnedOf(app.id)).toMatchObject([{ short_code: 'summer', reason: 'limit' }]);
  expect(await commands.pttl((await commands.keys(`learn:${app.id}:*`))[0] ?? '')).toBeLessThanOrEqual(
    learnLimits.failedMs,
  );
});

test('the concurrent requests of an app, and those per minute, are limited; visits beyond the limits do not wait', async () => {
  const { cache } = edgeAt(0);
  const app = (code: string) => [{ ...testApp, host: 'limits.localhost' }, code, true] as const;
  const silent = new AskedLinks(
    cache,
    { commands: { publish: () => new Promise<number>(() => undefined) } },
    () => 1_000,
  );
  const asked = Array.from({ length: 100 }, (_, n) => silent.find(...app(`code${n}`)));
  expect(asked.filter((one) => one === null)).toHaveLength(100 - askLimits.askingPerAppMax);
  expect(silent.counters.limit).toBe(100 - askLimits.askingPerAppMax);
  for (const one of asked) expect(await one).toBeNull();
  const alone = new AskedLinks(cache, { commands: { publish: async () => 0 } }, () => 1_000);
  for (let n = 0; n < askLimits.perAppAndMinuteMax; n++) expect(await alone.find(...app(`code${n}`))).toBeNull();
  expect(alone.find(...app('one_more'))).toBeNull();
  expect(alone.counters).toMatchObject({ unanswered: askLimits.perAppAndMinuteMax, limit: 1 });
});
