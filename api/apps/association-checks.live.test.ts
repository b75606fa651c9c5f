import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';
import { linkedAppOf } from '#common/links/link-snapshot.ts';
import { ReachableAddresses } from '#common/reachable-addresses.ts';
import { androidAssociation, appleAssociation } from '#common/redirect/association.ts';
import { type Receiver, receiverForTest } from '#testing/receiver.ts';
import { AssociationChecks, type CheckedFile } from './association-checks.ts';

/** Stands for a public address; 127.0.0.1 is inside. */
const outside = '127.0.0.2';
const fingerprint = Array.from({ length: 32 }, () => 'AB').join(':');
const ios = { bundle_id: 'com.example.shop', team_id: 'ABCDE12345' };
const android = { package_name: 'com.example.shop', sha256_cert_fingerprints: [fingerprint] };
const apple = '/.well-known/apple-app-site-association';
const google = '/.well-known/assetlinks.json';

let dns: DnsForTest;
let edge: Receiver;
let cdn: Receiver;
/** Content of an internal service on the same port. */
let inside: Server;
let reachedInside = 0;
let api: ApiForTest;
let owner: Member;
let stranger: Member;

beforeAll(async () => {
  dns = await dnsForTest();
  [edge, cdn] = await Promise.all([receiverForTest(outside), receiverForTest(outside)]);
  inside = createServer(() => reachedInside++).on('error', () => undefined);
  inside.listen(edge.port, '127.0.0.1');
  dns.addresses.set('cdn.example', [outside]);
  api = await apiForTest({
    DNS_SERVERS: dns.address,
    API_PUBLIC_URL: 'https://api.localhost/v1',
    SHORT_LINK_SCHEME: 'http',
    SHORT_LINK_PORT: String(edge.port),
    WEBHOOK_ALLOWED_NETWORKS: outside,
    APPLE_CDN_URL: `http://cdn.example:${cdn.port}`,
  });
  stranger = await api.member();
});
beforeEach(async () => {
  edge.received.length = 0;
  cdn.received.length = 0;
  edge.answer = (response, { path }) => json(response, served(path));
  cdn.answer = (response) => json(response, served(apple));
  // Checks are limited by organization.
  owner = await api.member();
});
afterEach(() => {
  expect(api.failures.splice(0)).toEqual([]);
  expect(reachedInside).toBe(0);
});
afterAll(async () => {
  await api.stop();
  await Promise.all([edge.stop(), cdn.stop(), dns.stop()]);
  inside.close();
});

const json = (response: ServerResponse, body: string) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(body);

function served(path: string): string {
  const row = { id: 'a', organization_id: 'o', host: 'h', fallback_url: null, settings: null, pages: null };
  const app = linkedAppOf({ ...row, ios, android });
  return (path === google ? androidAssociation(app) : appleAssociation(app)) ?? '';
}

/** Creates an app whose host resolves to `addresses`, and returns what its check finds, by file and source. */
async function checked(addresses: readonly string[] = [outside], fields: object = { ios, android }) {
  const app = (await owner.call('POST', '/apps', { name: 'Shop', ...fields })).body;
  dns.addresses.set(app.host, addresses);
  const { status, body } = await owner.call('POST', `/apps/${app.id}/check-associations`);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject({ host: app.host, checked_at: expect.any(String) });
  const files = body.files as CheckedFile[];
  expect(files.map(({ file, source }) => `${file} ${source}`)).toEqual([
    'apple-app-site-association host',
    'assetlinks.json host',
    'apple-app-site-association apple_cdn',
  ]);
  const [ofApple, ofGoogle, copy] = files;
  if (!ofApple || !ofGoogle || !copy) throw new Error('a file is missing');
  return { app, files, ofApple, ofGoogle, copy };
}

test('correctly served files are good, and are requested without any data of the caller', async () => {
  cdn.answer = (response) => {
    response.setHeader('age', '3600');
    response.setHeader('apple-from', `https://${'x'.repeat(900)}`);
    json(response, served(apple));
  };
  const { app, files, ofApple, copy } = await checked();
  expect(files.map(({ outcome, problems }) => [outcome, problems])).toEqual(files.map(() => ['good', []]));
  expect(ofApple).toMatchObject({
    url: `http://${app.host}:${edge.port}${apple}`,
    status: 200,
    content_type: 'application/json',
    bytes: served(apple).length,
    location: null,
    headers: {},
  });
  expect(copy.headers).toEqual({ age: '3600', 'apple-from': `https://${'x'.repeat(492)}` });
  expect(edge.received.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
    `GET ${apple}`,
    `GET ${google}`,
  ]);
  expect(cdn.received.map(({ path }) => path)).toEqual([`/a/v1/${app.host}`]);
  for (const { headers } of [...edge.received, ...cdn.received]) {
    expect(Object.keys(headers).sort()).toEqual(['accept', 'connection', 'host', 'user-agent']);
  }
});

test('a redirect is reported with its target and not followed, not even to an internal address', async () => {
  const location = `http://127.0.0.1:${edge.port}/secret`;
  edge.answer = (response) => response.writeHead(301, { location }).end();
  const { ofApple, ofGoogle } = await checked();
  for (const one of [ofApple, ofGoogle])
    expect(one).toMatchObject({ status: 301, location, outcome: 'faulty', problems: ['redirected'] });
});

test('a wrong content type, app id, certificate and content are each reported', async () => {
  const other = 'CD'.repeat(32).replace(/..(?=.)/g, '$&:');
  edge.answer = (response, { path }) =>
    path === apple
      ? response.writeHead(200, { 'content-type': 'text/html' }).end(served(apple).replaceAll('ABCDE', 'OTHER'))
      : json(response, served(google).replace(fingerprint, other));
  cdn.answer = (response) =>
    response
      .writeHead(404, { 'apple-failure-reason': 'SWCERR00301 Timeout', 'content-type': 'text/plain' })
      .end('Not Found');
  const { ofApple, ofGoogle, copy } = await checked();
  expect(ofApple).toMatchObject({ content_type: 'text/html', problems: ['content_type', 'app_missing'] });
  expect(ofGoogle).toMatchObject({ status: 200, problems: ['fingerprint_missing'] });
  expect(copy).toMatchObject({
    ...{ status: 404, problems: ['status'] },
    headers: { 'apple-failure-reason': 'SWCERR00301 Timeout' },
  });
});

test('a body of a megabyte is not read to its end', async () => {
  edge.answer = (response) => json(response, ' '.repeat(1_000_000));
  const { ofApple, ofGoogle } = await checked();
  for (const one of [ofApple, ofGoogle])
    expect(one).toMatchObject({ status: 200, bytes: null, problems: ['too_large'] });
});

test('a host that hangs, before or during its response, times out; so does Apple’s CDN', async () => {
  edge.answer = (response, { path }) => {
    if (path === google) response.writeHead(200, { 'content-type': 'application/json' }).write('[');
  };
  cdn.answer = () => undefined;
  const checks = new AssociationChecks({
    limiter: {
      chargeApart: async () => ({ quota: { limit: 1, remaining: 0, resetEpochSeconds: 0 }, rejection: null }),
    },
    shortUrl: (host) => `http://${host}:${edge.port}/`,
    resolve: async () => [outside],
    reachable: new ReachableAddresses([outside]),
    appleCdnUrl: `http://cdn.example:${cdn.port}`,
    timeLimitMs: 200,
  });
  const row = { id: 'a', organization_id: 'o', host: 'shop.example', fallback_url: null, pages: null };
  const files = await checks.check({ ...row, ios, android, host_verified_at: new Date() });
  expect(files).toMatchObject([
    { status: null, problems: ['timeout'] },
    { status: 200, problems: ['cut_off'] },
    { status: null, problems: ['timeout'] },
  ]);
});

test.each([
  ['the loopback address', ['127.0.0.1'], 'address_not_allowed'],
  ['a cloud’s metadata service', ['169.254.169.254'], 'address_not_allowed'],
  ['nothing', [], 'name_not_resolved'],
])('a host that resolves to %s is not connected to', async (_, addresses, problem) => {
  const { ofApple, ofGoogle } = await checked(addresses);
  for (const one of [ofApple, ofGoogle])
    expect(one).toMatchObject({ status: null, outcome: 'faulty', problems: [problem] });
  expect(edge.received).toEqual([]);
});

test('nothing is requested for a platform that the app lacks, or from a host that is not verified', async () => {
  const { files } = await checked([outside], {});
  expect(files.map(({ outcome, problems }) => [outcome, ...problems])).toEqual(
    files.map(() => ['not_checked', 'not_configured']),
  );
  const unproven = await checked([outside], { ios, android, host: `go-${owner.user_id.slice(-8)}.elsewhere.example` });
  expect(unproven.files.map(({ outcome, problems }) => [outcome, ...problems])).toEqual(
    files.map(() => ['not_checked', 'host_not_verified']),
  );
  expect([...edge.received, ...cdn.received]).toEqual([]);
});

test('only members of the app’s organization may check it', async () => {
  const { app } = await checked();
  const path = `/apps/${app.id}/check-associations`;
  const viewer = await api.member('viewer', owner.organization_id);
  expect((await viewer.call('POST', path)).status).toBe(200);
  edge.received.length = 0;
  expect((await stranger.call('POST', path)).status).toBe(403);
  expect((await api.call('', 'POST', path)).status).toBe(401);
  expect((await owner.call('POST', `/apps/${newId('app', 1)}/check-associations`)).status).toBe(404);
  expect((await owner.call('POST', path, { url: 'http://127.0.0.1/' })).status).toBe(400);
  expect(edge.received).toEqual([]);
});

test('the members of an organization share ten checks a minute', async () => {
  const person = await api.member();
  const colleague = await api.member('member', person.organization_id);
  const app = (await person.call('POST', '/apps', { name: 'Shop' })).body;
  const check = async (by: Member) => (await by.call('POST', `/apps/${app.id}/check-associations`)).status;
  const statuses: number[] = [];
  for (let n = 0; n < 11; n++) statuses.push(await check(n % 2 === 0 ? person : colleague));
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
  const other = (await owner.call('POST', '/apps', { name: 'Shop' })).body;
  expect((await owner.call('POST', `/apps/${other.id}/check-associations`)).status).toBe(200);
});
