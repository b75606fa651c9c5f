import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { logStateFrom } from '#api/analytics/log-state.ts';
import { agent, clickOf, eventOf, LogForTest, type Place, StreamClient } from '#api/testing/live-stage.ts';
import { type ApiForTest, apiForTest, type Member } from '#api/testing/running-api.ts';
import { newId } from '#common/ids.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { natsForTest, type TestServer } from '#testing/servers.ts';
import { LiveFeed } from './live-feed.ts';

let api: ApiForTest;
let nats: TestServer;
let log: LogForTest;
let owner: Member;
let stranger: Member;
let place: Place;
let other: Place;
let foreign: Place;
const clients: StreamClient[] = [];

beforeAll(async () => {
  nats = await natsForTest();
  log = await LogForTest.of(nats.url);
  api = await apiForTest({ API_NATS_URL: nats.url });
  owner = await api.member();
  stranger = await api.member();
  place = await placeOf(owner);
  other = await placeOf(owner);
  foreign = await placeOf(stranger);
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.leave();
});
afterAll(async () => {
  await api.stop();
  await log.close();
  await nats.stop();
});

async function placeOf({ organization_id, call }: Member): Promise<Place> {
  const app = await call('POST', '/apps', { name: 'Live', fallback_url: 'https://example.com/' });
  const link = await call('POST', '/links', { app_id: app.body.id, path: '/a' });
  expect(link.status).toBe(201);
  return { organization_id, app_id: app.body.id, link_id: link.body.id };
}

async function watch(query = '', token = owner.token, headers: Record<string, string> = {}): Promise<StreamClient> {
  const client = await StreamClient.open(`${api.url}/live${query}`, token, headers);
  clients.push(client);
  return client;
}

const idsOf = (client: StreamClient, name: string) => client.of('click').map(({ data }) => data[name]);

test('an organization sees its records as they arrive, and no other organization does', async () => {
  const [mine, theirs] = [await watch(), await watch('', stranger.token)];
  const click_id = newId('clk', 1);
  await log.write('click', clickOf(place, { click_id }), clickOf(foreign));
  await log.write('event', eventOf(place, 'device-1'));
  await expect.poll(() => mine.of('click', 'event').length).toBe(2);
  expect(mine.of('click')[0]?.data).toMatchObject({ click_id, app_id: place.app_id, platform: 'ios', is_bot: false });
  expect(mine.of('event')[0]?.data).toMatchObject({ name: 'opened', device_id: 'device-1' });
  await expect.poll(() => idsOf(theirs, 'app_id')).toEqual([foreign.app_id]);
  expect(theirs.of('event')).toEqual([]);
});

test('no address, user agent, user or property of an event is shown', async () => {
  const client = await watch();
  await log.write('click', clickOf(place, { query: 'email=ada' }));
  await log.write('event', eventOf(place, 'device-1'));
  await expect.poll(() => client.of('click', 'event').length).toBe(2);
  const text = JSON.stringify(client.events);
  for (const secret of ['203.0.113', agent, 'secret=1', 'ada']) expect(text).not.toContain(secret);
  expect(client.of('click')[0]?.data.referrer_host).toBe('news.example');
});

test('a stream can be limited to an app, a link or a device', async () => {
  const byApp = await watch(`?app_id=${place.app_id}`);
  const byLink = await watch(`?link_id=${other.link_id}`);
  const byDevice = await watch('?device_id=device-2');
  await log.write('click', clickOf(place), clickOf(other));
  await log.write('event', eventOf(place, 'device-1'), eventOf(other, 'device-2'));
  await expect.poll(() => byDevice.of('event').map(({ data }) => data.app_id)).toEqual([other.app_id]);
  expect(idsOf(byApp, 'app_id')).toEqual([place.app_id]);
  expect(byApp.of('event')).toHaveLength(1);
  expect(idsOf(byLink, 'link_id')).toEqual([other.link_id]);
  expect(byDevice.of('click')).toEqual([]);
});

test('a server key sees only its apps, and needs the scope', async () => {
  const key = async (scopes: string[]) =>
    (await owner.call('POST', '/keys', { name: 'Live', scopes, app_ids: [other.app_id] })).body.key;
  const client = await watch('', await key(['analytics:read']));
  await log.write('click', clickOf(place), clickOf(other));
  await expect.poll(() => idsOf(client, 'app_id')).toEqual([other.app_id]);
  expect((await api.call(await key(['links:read']), 'GET', '/live')).status).toBe(403);
});

test('the app or link of another organization is a 403, an unknown one a 404', async () => {
  const status = async (query: string) => (await owner.call('GET', `/live?${query}`)).status;
  for (const [kind, id] of Object.entries({ app_id: foreign.app_id, link_id: foreign.link_id })) {
    expect([kind, await status(`${kind}=${id}`), await status(`${kind}=unknown`)]).toEqual([kind, 403, 404]);
  }
  expect(await status(`organization_id=${foreign.organization_id}`)).toBe(403);
  expect((await api.call('', 'GET', '/live')).status).toBe(401);
  expect(await status('seconds=3601')).toBe(400);
});

test('more than a hundred records a second are sampled, and the stream says at what rate', async () => {
  const client = await watch();
  const clicks = Array.from({ length: 400 }, () => clickOf(place));
  await log.write('click', ...clicks);
  const nextSecond = async () => {
    await log.write('click', clickOf(place));
    return client.of('sampled').length;
  };
  await expect.poll(nextSecond, { interval: 400 }).toBeGreaterThan(0);
  const { seen, sent, rate } = client.of('sampled')[0]?.data ?? {};
  expect([seen >= 400, sent, rate]).toEqual([true, 100, Math.round(1_000_000 / seen) / 10_000]);
});

test('a client that resumes gets exactly what it missed, and may end there', async () => {
  const first = await watch();
  const ids = Array.from({ length: 3 }, () => newId('clk', 1));
  await log.write('click', ...ids.map((click_id) => clickOf(place, { click_id })));
  await expect.poll(() => idsOf(first, 'click_id')).toEqual(ids);
  await first.leave();
  const missed = newId('clk', 1);
  await log.write('click', clickOf(place, { click_id: missed }));
  const again = await watch('?seconds=0', owner.token, { 'last-event-id': first.of('click')[1]?.id ?? '' });
  await again.ended;
  expect(idsOf(again, 'click_id')).toEqual([ids[2], missed]);
  // Another client keeps the shared reader running, ahead of the resumed position.
  const watching = await watch();
  const later = newId('clk', 1);
  const resumed = await watch('', owner.token, { 'last-event-id': first.of('click')[2]?.id ?? '' });
  await log.write('click', clickOf(place, { click_id: later }));
  await expect.poll(() => idsOf(resumed, 'click_id')).toEqual([missed, later]);
  expect(idsOf(watching, 'click_id')).toEqual([later]);
});

test('records that are too old are reported as a gap, and an unknown id gets a 400', async () => {
  const old = `${Date.now() - 3_600_000}-1-0`;
  const client = await watch('?seconds=0', owner.token, { 'last-event-id': old });
  await client.ended;
  const { from, to } = client.of('gap')[0]?.data ?? {};
  expect(Date.parse(to) - Date.parse(from)).toBeGreaterThan(3_000_000);
  await expect(watch('', owner.token, { 'last-event-id': 'x' })).rejects.toThrow(/400.*last-event-id/);
});

test('the log is read only while a client watches', async () => {
  await expect.poll(() => api.live.isReading).toBe(false);
  const client = await watch();
  expect(api.live.isReading).toBe(true);
  await client.leave();
  await expect.poll(() => api.live.isReading).toBe(false);
});

test('one caller has at most ten streams', async () => {
  for (let n = 0; n < 10; n++) await watch();
  const { status, headers } = await owner.call('GET', '/live');
  expect([status, headers.get('retry-after')]).toEqual([429, '10']);
  await watch('', stranger.token);
});

test('a stream survives the restart of NATS', { tags: ['slow'] }, async () => {
  const client = await watch();
  await nats.kill('SIGKILL');
  await nats.restart();
  const shown = async () => {
    await log.write('click', clickOf(place)).catch(() => undefined);
    return client.of('click').length;
  };
  await expect.poll(shown, { timeout: 30_000, interval: 500 }).toBeGreaterThan(0);
});

test('a stream ends when its client may no longer watch', async () => {
  let isAllowed = true;
  const feed = new LiveFeed({
    ...{ natsUrl: nats.url, installation: defaultInstallation, log: { warn: () => undefined }, heartbeatMs: 60_000 },
    onNatsError: () => undefined,
  });
  const filter = { organizationIds: [place.organization_id], appIds: null, linkIds: null, deviceIds: null };
  const mayWatch = async () => isAllowed;
  const stream = await feed.open({ callerId: 'one', filter, after: null, seconds: 60, mayWatch });
  if (typeof stream === 'string') throw new Error(stream);
  isAllowed = false;
  // Whatever the time between two heartbeats.
  await expect.poll(() => stream.isOver, { timeout: 1_500 }).toBe(true);
  await expect.poll(() => feed.isReading).toBe(false);
  await feed.stop();
});

test('an organization has at most 20 streams, which leave those of others free', async () => {
  const feed = new LiveFeed({
    ...{ natsUrl: nats.url, installation: defaultInstallation, log: { warn: () => undefined } },
    onNatsError: () => undefined,
  });
  const open = (callerId: string, organization: string) => {
    const filter = { organizationIds: [organization], appIds: null, linkIds: null, deviceIds: null };
    return feed.open({ callerId, filter, after: null, seconds: 60, mayWatch: async () => true });
  };
  const streams = [];
  for (let n = 0; n < 21; n++) streams.push(await open(`key_${n}`, 'org_a'));
  expect(streams.map((stream) => stream === 'full')).toEqual([...Array(20).fill(false), true]);
  expect(typeof (await open('key_of_b', 'org_b'))).toBe('object');
  await feed.stop();
});

test('without NATS there is no live feed, and the response says so', async () => {
  const feed = new LiveFeed({
    natsUrl: '',
    installation: defaultInstallation,
    log: { warn: () => undefined },
    onNatsError: () => undefined,
  });
  expect(feed.isConfigured).toBe(false);
});

test('an idle stream stays open, and ends soon after the membership of its user', { tags: ['slow'] }, async () => {
  const member = await api.member('viewer', owner.organization_id);
  const client = await watch('', member.token);
  const begin = client.lastId;
  await expect.poll(() => client.lastId !== begin, { timeout: 15_000 }).toBe(true);
  const startedMs = Date.now();
  await expect.poll(() => Date.now() - startedMs, { timeout: 20_000 }).toBeGreaterThan(14_000);
  expect(client.isOver).toBe(false);
  await api.db.execute('DELETE FROM memberships WHERE user_id = $1', [member.user_id]);
  await expect.poll(() => client.isOver, { timeout: 30_000 }).toBe(true);
});

test('the trust page shows which machines report, which partitions are being stored, and how full the log is', async () => {
  await log.write('click', clickOf(place));
  await api.db.execute(`INSERT INTO ingest.progress (machine, committed_to, updated_at)
    VALUES ('edge-1', 1, now()), ('edge-2', 1, now() - interval '5 minutes')`);
  await api.db.execute(`INSERT INTO ingest.lease (partition, owner, epoch, expires_at)
    VALUES (0, 'a', 1, now() + interval '1 minute'), (1, 'b', 1, now() - interval '1 hour')`);
  try {
    const { status, body } = await owner.call('GET', '/trust');
    expect(status).toBe(200);
    expect(body.pipeline).toEqual({
      machines: { count: 2, silent: 1 },
      storing: { parts: 2, owned: 1, processes: 1 },
      log: { bytes: expect.any(Number), bytes_max: 67_108_864, copies: 1, copies_current: 1 },
    });
    expect(body.pipeline.log.bytes).toBeGreaterThan(0);
  } finally {
    await api.db.execute('DELETE FROM ingest.progress');
    await api.db.execute('DELETE FROM ingest.lease');
  }
});

test('if NATS has no such log, is down or hangs, the page still responds and shows the log as unknown', async () => {
  const hanging = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(hanging, 'listening');
  const state = (natsUrl: string, installation = defaultInstallation) =>
    logStateFrom({ natsUrl, installation, onNatsError: () => undefined })();
  const { port } = hanging.address() as AddressInfo;
  const urls = ['', 'nats://127.0.0.1:9', `nats://127.0.0.1:${port}`];
  expect(await Promise.all([state(nats.url, 'other'), ...urls.map((url) => state(url))])).toEqual([
    null,
    null,
    null,
    null,
  ]);
  hanging.close();
});
