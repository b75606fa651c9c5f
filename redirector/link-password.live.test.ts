import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { unlockLimits } from './link-unlocks.ts';
import { TestEdge } from './testing/running-edge.ts';

let api: ApiForTest;
let edge: TestEdge;
let owner: Member;
let app: { id: string; host: string };
const destination = 'https://secret-destination.example/page';
const browser = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36' };

beforeAll(async () => {
  api = await apiForTest();
  const servers = { redis: api.redisServer.url, postgres: api.databaseUrl };
  edge = await TestEdge.start(servers, { trustedProxies: ['127.0.0.1'] });
  owner = await api.member();
  app = (await owner.call('POST', '/apps', { name: 'Locked' })).body;
});
afterAll(async () => {
  await edge.stop();
  await api.stop();
});

async function newLink(more: object = {}) {
  const { body } = await owner.call('POST', '/links', { app_id: app.id, url: destination, ...more });
  return { id: String(body.id), code: String(body.short_code) };
}

async function lockedLink(password: string, more: object = {}) {
  const link = await newLink(more);
  const { status, body } = await owner.call('PUT', `/links/${link.id}/password`, { password });
  expect([status, body.has_password, JSON.stringify(body).includes('scrypt')]).toEqual([200, true, false]);
  return link;
}

/** Sends one request on its own connection. */
function post(path: string, body: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number; location: string; cache: string; body: string }>((done, fail) => {
    const sent = request(
      {
        ...{ port: edge.port, host: '127.0.0.1', path, method: 'POST', agent: false, timeout: 10_000 },
        headers: { host: app.host, 'content-length': Buffer.byteLength(body), ...browser, ...headers },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        const { location = '', 'cache-control': cache = '' } = answer.headers;
        answer.on('end', () => done({ status: answer.statusCode ?? 0, location, cache, body: text }));
      },
    );
    sent.on('error', fail).end(body);
  });
}

/** Sends the form of the password page as a browser does. */
function unlock(link: string, password: string, ip = '192.0.2.1') {
  return post('/-/unlock', new URLSearchParams({ link, password }).toString(), { 'x-forwarded-for': ip });
}

test('a visitor is asked for the password and redirected after entering it, and only then there is a click', async () => {
  const { code } = await lockedLink('open sesame');
  for (const isCached of [false, true]) {
    const before = edge.clicks().length;
    const asked = await edge.get(app.host, `/${code}?k=%3Cb%3E&x=1`, browser);
    expect([asked.status, asked.headers['cache-control'], isCached]).toEqual([200, 'private, no-store', isCached]);
    expect(asked.body).toContain('<form method="post" action="/-/unlock">');
    expect(JSON.stringify(asked)).not.toContain('secret-destination');
    const link = /name="link" value="([^"]*)"/.exec(asked.body)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const wrong = await unlock(link, 'open barley');
    expect([wrong.status, wrong.cache]).toEqual([403, 'private, no-store']);
    expect(JSON.stringify(wrong)).not.toContain('secret-destination');
    expect(edge.clicks().length).toBe(before);
    const opened = await unlock(link, 'open sesame');
    expect([opened.status, opened.location, opened.cache]).toEqual([
      ...[302, `${destination}?k=%3Cb%3E&x=1`, 'private, no-store'],
    ]);
    expect(edge.clicks().slice(before)).toMatchObject([{ query: 'k=%3Cb%3E&x=1' }]);
  }
  const head = await edge.get(app.host, `/${code}`, browser, 'HEAD');
  expect([head.status, head.headers.location]).toEqual([200, undefined]);
});

test('a new password replaces the old one within a second, and a link without a password is open', async () => {
  const { id, code } = await lockedLink('first one');
  expect((await unlock(`/${code}`, 'first one')).status).toBe(302);
  await owner.call('PUT', `/links/${id}/password`, { password: 'second one' });
  await expect.poll(async () => (await unlock(`/${code}`, 'second one')).status).toBe(302);
  expect((await unlock(`/${code}`, 'first one')).status).toBe(403);
  expect((await owner.call('DELETE', `/links/${id}/password`)).body.has_password).toBe(false);
  await expect.poll(async () => (await edge.get(app.host, `/${code}`, browser)).status).toBe(302);
  expect((await unlock(`/${code}`, 'anything')).location).toBe(destination);
});

test('guesses are limited by link and address, and a limited address does not limit others', async () => {
  const { code } = await lockedLink('rare word');
  const statuses = [];
  for (let n = 0; n < unlockLimits.perAddressMax + 2; n++)
    statuses.push((await unlock(`/${code}`, `guess ${n}`, '198.51.100.7')).status);
  expect(statuses).toEqual([...Array(unlockLimits.perAddressMax).fill(403), 429, 429]);
  // No longer compared: even the right password is rejected.
  expect((await unlock(`/${code}`, 'rare word', '198.51.100.7')).status).toBe(429);
  expect((await unlock(`/${code}`, 'rare word', '198.51.100.8')).status).toBe(302);
});

test('bodies that are not a form, are too large, or name no link are rejected, and other paths accept no POST', async () => {
  const { code } = await lockedLink('a password');
  expect((await post('/-/unlock', 'x')).status).toBe(400);
  expect((await post('/-/unlock', `link=/${code}&password=${'x'.repeat(201)}`)).status).toBe(400);
  expect((await post('/-/unlock', `link=//evil.example/&password=x`)).status).toBe(404);
  expect((await unlock('/nosuch', 'x')).status).toBe(404);
  expect((await post(`/${code}`, 'password=a+password')).status).toBe(405);
  const large = await post('/-/unlock', 'x'.repeat(unlockLimits.bodyBytesMax + 1)).catch(() => ({ status: 400 }));
  expect(large.status).toBe(400);
});

test('rules and expiry apply as without a password, and an explanation mentions the password prompt', async () => {
  const { id, code } = await lockedLink('with rules', {
    rules: [{ platform: ['desktop'], url: 'https://rule.example/' }],
  });
  expect((await unlock(`/${code}`, 'with rules')).location).toBe('https://rule.example/');
  const { body } = await owner.call('POST', `/links/${id}/explain`, { user_agent: browser['user-agent'] });
  expect([body.outcome, body.rule, body.status, body.location]).toEqual(['password', 'link.password', 200, null]);
  await owner.call('PATCH', `/links/${id}`, { expires_at: '2020-01-01T00:00:00Z' });
  await expect.poll(async () => (await unlock(`/${code}`, 'with rules', '192.0.2.9')).status).toBe(410);
});

test('a link whose password hash is lost stays closed', async () => {
  const { id, code } = await lockedLink('lost one');
  await edge.db.execute('DELETE FROM link_passwords WHERE link_id = $1', [id]);
  await owner.call('PATCH', `/links/${id}`, { title: 'changed' });
  await expect.poll(async () => (await unlock(`/${code}`, 'lost one')).status).toBe(403);
});

test('viewers and strangers cannot set a password, and its hash reaches no webhook', async () => {
  const { id } = await newLink();
  const body = { password: 'not yours' };
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await viewer.call('PUT', `/links/${id}/password`, body)).status).toBe(403);
  expect((await (await api.member()).call('DELETE', `/links/${id}/password`)).status).toBe(403);
  expect((await owner.call('PUT', `/links/${id}/password`, { password: 'abc' })).body.error.details.field).toBe(
    'password',
  );
  const columns = await edge.db.query<{ column_name: string }>(
    `SELECT column_name FROM information_schema.columns WHERE table_name = 'links' AND column_name LIKE '%password%'`,
  );
  expect(columns).toEqual([{ column_name: 'has_password' }]);
});
