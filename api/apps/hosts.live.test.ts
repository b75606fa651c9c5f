import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { releaseHost, verifyHost } from '#api/admin/hosts.ts';
import { type DnsForTest, dnsForTest } from '#api/testing/dns-server.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { systemClock } from '#common/clock.ts';
import { LinkCache } from '#common/links/link-cache.ts';
import { Redis } from '#common/stores/redis.ts';
import { whenQuiet } from '#testing/busy-machine.ts';
import { HostChecks } from './host-checks.ts';

let api: ApiForTest;
let dns: DnsForTest;
let owner: Member;
let stranger: Member;
let redis: Redis;
/** As a redirector has it. */
let cache: LinkCache;

beforeAll(async () => {
  dns = await dnsForTest();
  api = await apiForTest({ DNS_SERVERS: dns.address, API_PUBLIC_URL: 'https://api.localhost/v1' });
  [owner, stranger] = await Promise.all([api.member(), api.member()]);
  redis = new Redis({ url: api.redisServer.url, name: 'redirector-test' });
  await redis.connect();
  cache = new LinkCache({ redis, db: api.db, clock: systemClock, entriesMax: 100, bytesMax: 1e6 });
  await cache.start();
});
beforeEach(() => {
  dns.mood = 'well';
});
afterEach(() => expect(api.failures.splice(0)).toEqual([]));
afterAll(async () => {
  await cache.stop();
  await redis.close();
  await api.stop();
  await dns.stop();
});

const second = { timeout: 6_000, interval: 20 };
const parts = () => ({ db: api.db, clock: systemClock });

async function claim(host: string, member = owner) {
  const app = await member.call('POST', '/apps', { name: 'App', host, fallback_url: 'https://a.example/' });
  expect(app.status, JSON.stringify(app.body)).toBe(201);
  const link = await member.call('POST', '/links', { app_id: app.body.id, path: '/x' });
  const serve = async () => (await cache.find(host, link.body.short_code)) != null;
  const verification = async () => (await member.call('GET', `/apps/${app.body.id}`)).body.host_verification;
  return { id: app.body.id as string, app: app.body, serve, verification };
}
/** One second back, because the clocks of two processes may differ by milliseconds. */
const due = () => api.db.execute(`UPDATE host_checks SET due_at = now() - interval '1 second'`);

test('a host under the service’s own domain is served immediately, without a record', async () => {
  const { app, serve } = await claim('trial.localhost');
  expect(app.host_verification).toEqual({
    ...{ status: 'verified', record_name: null, record_value: null, problem: null },
    checked_at: expect.any(String),
  });
  expect(await serve()).toBe(true);
});

test('another host is served once its DNS names the app; until then the app says which record is missing', {
  tags: ['slow'],
}, async () => {
  const { id, app, serve, verification } = await claim('go.elsewhere.example');
  const record = { record_name: '_signpost.go.elsewhere.example', record_value: `signpost-app=${id}` };
  expect(app.host_verification).toEqual({ ...record, status: 'pending', checked_at: null, problem: null });
  expect(await serve()).toBe(false);
  await api.hostChecks.look();
  expect(dns.asked).toContain(record.record_name);
  expect(await verification()).toMatchObject({ ...record, status: 'pending', problem: 'record_missing' });
  dns.records.set(record.record_name, ['v=spf1 -all', 'signpost-app=app_00000000000000000000000000']);
  await due();
  await api.hostChecks.look();
  expect(await verification()).toMatchObject({ status: 'pending', problem: 'record_differs' });
  expect(await serve()).toBe(false);
  dns.records.set(record.record_name, ['x'.repeat(600), record.record_value]);
  await due();
  await api.hostChecks.look();
  expect(await verification()).toMatchObject({ status: 'verified', problem: null, checked_at: expect.any(String) });
  await expect.poll(serve, second).toBe(true);
  expect(await api.db.query('SELECT FROM host_checks WHERE app_id = $1', [id])).toEqual([]);
  const listed = (await owner.call('GET', '/apps')).body.data.find((one: { id: string }) => one.id === id);
  expect(listed.host_verification.status).toBe('verified');
});

test('an unverified claim blocks no other: the first app to verify the host gets it', async () => {
  const squatter = await claim('go.wanted.example', stranger);
  const rightful = await claim('go.wanted.example');
  const { record_name, record_value } = rightful.app.host_verification;
  dns.records.set(record_name, [record_value]);
  await due();
  await api.hostChecks.look();
  expect((await rightful.verification()).status).toBe('verified');
  await expect.poll(rightful.serve, second).toBe(true);
  expect(await squatter.serve()).toBe(false);
  dns.records.set(record_name, [record_value, squatter.app.host_verification.record_value]);
  await due();
  await api.hostChecks.look();
  expect(await squatter.verification()).toMatchObject({ status: 'pending', problem: 'taken' });
  const late = await stranger.call('POST', '/apps', { name: 'x', host: 'go.wanted.example' });
  expect([late.status, late.body.error.details.field]).toEqual([400, 'host']);
});

test('of two apps that verify the same host at the same moment, one is served', async () => {
  const claims = [await claim('go.both.example'), await claim('go.both.example', stranger)];
  dns.records.set(
    '_signpost.go.both.example',
    claims.map(({ app }) => app.host_verification.record_value),
  );
  await due();
  await api.hostChecks.look();
  const statuses = await Promise.all(claims.map(async (one) => (await one.verification()).status));
  expect(statuses.sort()).toEqual(['pending', 'verified']);
});

test('an app that changes its host has to verify the new one, and is no longer served under the old one', async () => {
  const { id, app, serve } = await claim('go.before.example');
  await verifyHost(parts(), 'go.before.example');
  await expect.poll(serve, second).toBe(true);
  expect((await owner.call('PATCH', `/apps/${id}`, { name: 'Renamed' })).body.host_verification.status).toBe(
    'verified',
  );
  const moved = await owner.call('PATCH', `/apps/${id}`, { host: 'go.after.example' });
  expect(moved.body.host_verification).toMatchObject({
    ...{ status: 'pending', record_name: '_signpost.go.after.example', checked_at: null },
    record_value: app.host_verification.record_value,
  });
  await expect.poll(serve, second).toBe(false);
  const home = await owner.call('PATCH', `/apps/${id}`, { host: `home-${id.slice(-6)}.localhost` });
  expect(home.body.host_verification.status).toBe('verified');
});

test('a DNS record that is found for a host that the app has given up verifies nothing', async () => {
  const { id, app, verification } = await claim('go.quick.example');
  dns.records.set('_signpost.go.quick.example', [app.host_verification.record_value]);
  await due();
  const looking = api.hostChecks.look();
  await owner.call('PATCH', `/apps/${id}`, { host: 'go.slow.example' });
  await looking;
  const { status, record_name } = await verification();
  expect([status, record_name]).toEqual(['pending', '_signpost.go.slow.example']);
});

test('failing or unresponsive DNS is reported as such, times out, and is retried', async () => {
  const { verification } = await claim('go.away.example');
  for (const mood of ['failing', 'silent'] as const) {
    dns.mood = mood;
    await due();
    const startMs = performance.now();
    await api.hostChecks.look();
    expect(performance.now() - startMs).toBeLessThan(whenQuiet(15_000));
    expect(await verification()).toMatchObject({ status: 'pending', problem: 'dns_unavailable' });
  }
});

test('claims are checked repeatedly, less often as they get older, and never in two processes at once', async () => {
  const { id } = await claim('go.patient.example');
  await due();
  const another = new HostChecks({
    ...{ db: api.db, log: { warn: () => undefined, info: () => undefined } },
    ...{ dnsServers: [dns.address], deliverChanges: async () => true },
  });
  dns.asked.length = 0;
  await Promise.all([api.hostChecks.look(), another.look()]);
  expect(dns.asked.filter((name) => name === '_signpost.go.patient.example')).toHaveLength(1);
  const pause = async () => {
    const [row] = await api.db.query<{ s: number }>(
      'SELECT extract(epoch FROM due_at - checked_at)::float AS s FROM host_checks WHERE app_id = $1',
      [id],
    );
    return Math.round(row?.s ?? 0);
  };
  expect(await pause()).toBe(15);
  for (const [age, seconds] of [
    ['1 hour', 360],
    ['100 days', 86_400],
  ] as const) {
    await api.db.execute(
      `UPDATE host_checks SET due_at = now() - interval '1 second', claimed_at = now() - $2::interval WHERE app_id = $1`,
      [id, age],
    );
    await api.hostChecks.look();
    expect(Math.abs((await pause()) - seconds)).toBeLessThan(3);
  }
  await another.stop();
});

test('the checks run automatically while the API does', async () => {
  const { app, verification } = await claim('go.byitself.example');
  dns.records.set('_signpost.go.byitself.example', [app.host_verification.record_value]);
  await due();
  api.hostChecks.start();
  await expect.poll(async () => (await verification()).status, second).toBe('verified');
  await api.hostChecks.stop();
});

test.each(['localhost.example', 'www.localhost', 'API.localhost'])(
  'the service’s own hosts are reserved: %s under its domain',
  async (host) => {
    const reply = await owner.call('POST', '/apps', { name: 'x', host });
    if (host === 'localhost.example') expect(reply.status).toBe(201);
    else expect([reply.status, reply.body.error.details.field]).toEqual([400, 'host']);
  },
);

test('an app named like a reserved host gets another one', async () => {
  expect((await owner.call('POST', '/apps', { name: 'WWW' })).body.host).toMatch(/^www-\d+\.localhost$/);
  const app = (await owner.call('POST', '/apps', { name: 'Any' })).body;
  const moved = await owner.call('PATCH', `/apps/${app.id}`, { host: 'www.localhost' });
  expect([moved.status, moved.body.error.details.field]).toEqual([400, 'host']);
});

test('an operator verifies a host, and must name the app if several claim it', async () => {
  const [mine, theirs] = [await claim('go.operator.example'), await claim('go.operator.example', stranger)];
  expect(await verifyHost(parts(), 'go.operator.example')).toMatchObject({
    kind: 'refused',
    message: expect.stringContaining(theirs.id),
  });
  expect(await verifyHost(parts(), 'GO.operator.example', mine.id)).toEqual({ kind: 'verified', app_id: mine.id });
  await expect.poll(mine.serve, second).toBe(true);
  expect(await verifyHost(parts(), 'go.operator.example', theirs.id)).toMatchObject({ kind: 'refused' });
  expect(await verifyHost(parts(), 'go.nobody.example')).toMatchObject({ kind: 'refused' });
});

test('an operator releases a host from a deleted app, from an app that gave it up, and from the app that is served', async () => {
  const host = 'go.freed.example';
  const deleted = await claim(host, stranger);
  await verifyHost(parts(), host);
  await stranger.call('DELETE', `/apps/${deleted.id}`);
  expect((await owner.call('POST', '/apps', { name: 'x', host })).status).toBe(400);
  expect(await releaseHost(parts(), host)).toEqual({ kind: 'released', app_ids: [] });
  const mine = await claim(host);
  await verifyHost(parts(), host);
  await expect.poll(mine.serve, second).toBe(true);
  await owner.call('PATCH', `/apps/${mine.id}`, { host: 'go.left.example' });
  expect((await stranger.call('POST', '/apps', { name: 'x', host })).status).toBe(400);
  expect(await releaseHost(parts(), host)).toEqual({ kind: 'released', app_ids: [] });
  const theirs = await claim(host, stranger);
  await verifyHost(parts(), host);
  await expect.poll(theirs.serve, second).toBe(true);
  expect(await releaseHost(parts(), host)).toEqual({ kind: 'released', app_ids: [theirs.id] });
  await expect.poll(theirs.serve, second).toBe(false);
  expect(await theirs.verification()).toMatchObject({ status: 'pending' });
  expect(await releaseHost(parts(), host)).toMatchObject({ kind: 'refused' });
});
