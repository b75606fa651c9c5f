import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { audit } from '#clickhouse/queries/audit.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { type EventExtras, eventJson, eventPrefix, extrasJson } from '#common/log/event-record.ts';
import { type InstallRecord, installJson, installTextMax } from '#common/log/install-record.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { purgeLog } from '#common/log/log-stream.ts';
import { partitionOf } from '#common/log/partition.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import type { FailpointName } from '#ingest/failpoints.ts';
import { PipelineHarness } from '#ingest/testing/pipeline-harness.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { redisForTest, type TestServer } from '#testing/servers.ts';

const organization_id = newId('org', 1);
const link_id = newId('lnk', 1);
let app_id = '';
let way: PipelineHarness;
let redisServer: TestServer;
let redis: Redis;

beforeAll(async () => {
  redisServer = await redisForTest();
  redis = new Redis({ url: redisServer.url, name: 'test' });
  await redis.connect();
  way = await PipelineHarness.start({ hasOwnClickhouse: true });
  way.more = { REDIS_URL: redisServer.url };
});
afterEach(() => way.stopIngests());
afterAll(async () => {
  await way.stop();
  await redis.close();
  await redisServer.stop();
});

/** An event of a device that happened `agoMs` ago. */
function event(event_id: string, device_id: string, agoMs: number): string {
  const now = Date.now();
  const origin = { organization_id, app_id, received_at: now, ip: '8.8.8.8', privacy_mode: 'full_ip' as const };
  const money = { revenue_amount: '2.5', revenue_currency: 'EUR', is_conversion: true };
  const decision = { event_id, time: now - agoMs, ...money, is_id_made: false, linkFields: '' };
  const sent = JSON.stringify({ name: 'bought', device_id, properties: { event_id } });
  return eventJson(eventPrefix({ ...origin, defaults: {} }), decision, sent);
}

/** The same with extra fields, for example with an install id or the location of the device. */
function eventWith(event_id: string, sent: object, extras: Partial<EventExtras> = {}): string {
  const now = Date.now();
  const origin = { organization_id, app_id, received_at: now, ip: '8.8.8.8', privacy_mode: 'full_ip' as const };
  const money = { revenue_amount: '-1.25', revenue_currency: 'USD', is_conversion: false };
  const linkFields = extrasJson({ device_ip: '', aliases: [], utm: {}, ...extras }, 'full_ip');
  const decision = { event_id, time: now, ...money, is_id_made: false, linkFields };
  return eventJson(eventPrefix({ ...origin, defaults: {} }), decision, JSON.stringify({ name: 'bought', ...sent }));
}

function install(device_id: string, more: Partial<InstallRecord> = {}): string {
  const time = Date.now();
  const none = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, ''])) as Record<
    keyof typeof installTextMax,
    string
  >;
  return installJson({
    ...{ ...none, install_id: newId('ins', time), organization_id, app_id, link_id, device_id, campaign: 'sale' },
    ...{
      time,
      installed_at: time,
      match_type: 'none',
      match_guaranteed: false,
      confidence: 1,
      attributed: true,
      trigger: 'install',
    },
    ...{ platform: 'ios', privacy_mode: 'full_ip', ip: '91.10.10.10', properties: '', ...more },
  });
}

/** @param partitions of the log: each record goes to the partition of its id. */
async function append(
  kind: RecordKind,
  lines: readonly string[],
  partitions = 1,
  journal = way.journal,
): Promise<void> {
  await Promise.all(
    lines.map(
      (json) =>
        new Promise<void>((committed, fail) => {
          const id = String(JSON.parse(json)[`${kind}_id`]);
          journal.append(journal.lane(kind, partitionOf(app_id, id, partitions)), json, {
            committed,
            refused: () => fail(new Error('refused')),
          });
        }),
    ),
  );
}

const rows = <Row>(sql: string) => way.client.query<Row>(sql, { app_id });
const ofApp = 'app_id = {app_id:String}';
const eventually = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 90_000, interval: 300 });
const stored = async (table: string) =>
  Number((await rows<{ n: number }>(`SELECT count() AS n FROM ${table} WHERE ${ofApp}`))[0]?.n);

/** Sums of the events of a link, and of events without a link, as each kind of query reports them. */
async function sums() {
  const figures = 'toUInt64(sum(rows)) AS events, sum(conversions) AS conversions, toString(sum(revenue)) AS revenue';
  const raw = `toUInt64(sum(sign)) AS events, toUInt64(sumIf(sign, is_conversion)) AS conversions, toString(sum(revenue_amount * sign)) AS revenue`;
  const one = async (sql: string) => (await rows<object>(sql))[0];
  const of = (link: string) =>
    Promise.all([
      one(`SELECT ${raw} FROM events WHERE ${ofApp} AND link_id = '${link}'`),
      one(`SELECT ${figures} FROM events_by_link WHERE ${ofApp} AND link_id = '${link}'`),
      one(
        `SELECT ${figures} FROM events_by_dimension WHERE ${ofApp} AND dimension = 'campaign' AND value = '${link && 'sale'}'`,
      ),
      one(
        `SELECT ${figures} FROM events_by_dimension WHERE ${ofApp} AND dimension = 'platform' AND value = '${link && 'ios'}'`,
      ),
    ]);
  return { linked: await of(link_id), others: await of('') };
}

const faults = async () => {
  const report = await audit(way.client, { from_ms: Date.now() - 8 * HOUR_MS, to_ms: Date.now() });
  return { duplicated: report.duplicated, rollup_difference: report.rollup_difference };
};

async function expectAll(count: number, others: number): Promise<void> {
  const amounts = (n: number) => ({ events: n, conversions: n, revenue: String(2.5 * n) });
  await eventually(sums).toEqual({
    linked: Array.from({ length: 4 }, () => amounts(count)),
    others: Array.from({ length: 4 }, () => amounts(others)),
  });
  expect(await faults()).toEqual({ duplicated: 0, rollup_difference: 0 });
}

const aheads = [0, 100, 600, 5_000, 60_000, HOUR_MS, 6 * HOUR_MS, 6 * 24 * HOUR_MS];

test('events that arrive before their install get its link, once, in every figure; events older than the window do not', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const early = aheads.map((ahead, n) => event(`e${n}`, `d${n}`, ahead));
  await append('event', [...early, event('old', 'd0', 8 * 24 * HOUR_MS), event('organic', 'o', 5_000)]);
  await eventually(() => stored('events')).toBe(early.length + 2);
  await append('install', [install('o', { link_id: '', attributed: false, campaign: '', time: Date.now() - 1_000 })]);
  await append('install', [...aheads.map((_, n) => install(`d${n}`)), install('o')]);
  await eventually(async () =>
    rows(`SELECT event_id FROM events WHERE ${ofApp} AND is_learned AND sign = 1 AND link_id = '' ORDER BY event_id`),
  ).toEqual([{ event_id: 'organic' }]);
  await eventually(async () =>
    Number(
      (await rows<{ n: number }>(`SELECT sum(sign) AS n FROM events WHERE ${ofApp} AND link_id = '${link_id}'`))[0]?.n,
    ),
  ).toBe(early.length);
  const [learned] = await rows(
    `SELECT install_id != '' AS is_known, platform, country, campaign, properties FROM events WHERE ${ofApp} AND is_learned AND sign = 1 AND event_id = 'e3'`,
  );
  expect(learned).toEqual({
    ...{ is_known: 1, platform: 'ios', country: 'DE', campaign: 'sale', properties: '{"event_id":"e3"}' },
  });
  expect(await faults()).toEqual({ duplicated: 0, rollup_difference: 0 });
  await ingest.stop();
});

testCostlyCases<FailpointName>(
  ['learned_inserted', 'learned_before'],
  0,
  'late attributions are stored once when ingest is killed at %s and Redis has lost everything',
  async (failpoint) => {
    app_id = newId('app', Date.now());
    const dying = way.ingest(`${failpoint}:1`);
    await append(
      'event',
      aheads.slice(0, 7).map((ahead, n) => event(`e${n}`, `d${n}`, ahead)),
    );
    await eventually(() => stored('events')).toBe(7);
    await append(
      'install',
      aheads.slice(0, 7).map((_, n) => install(`d${n}`)),
    );
    await dying.exited;
    await redis.commands.flushall();
    const next = way.ingest();
    await expectAll(7, 0);
    await next.stop();
  },
  240_000,
);

test('after ClickHouse is killed while events and installs arrive, each event has its link, once', {
  tags: ['slow'],
  timeout: 240_000,
}, async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  for (let n = 0; n < 30; n += 10) {
    const devices = Array.from({ length: 10 }, (_, at) => n + at);
    await append(
      'event',
      devices.map((d) => event(`e${d}`, `d${d}`, 1_000)),
    );
    if (n === 10) await way.clickhouse.kill('SIGKILL');
    await append(
      'install',
      devices.map((d) => install(`d${d}`)),
    );
    if (n === 10) await way.clickhouse.restart();
  }
  await expectAll(30, 0);
  await ingest.stop();
});

test('an event that arrived before its install ends up like one that arrived after it', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const install_id = newId('ins', Date.now());
  const shapes: [sent: object, extras?: Partial<EventExtras>][] = [
    [{ device_id: 'd0' }],
    [{ install_id }],
    [{ device_id: 'd0', platform: 'android' }],
    [{ device_id: 'web' }, { aliases: ['d0'] }],
    [{ device_id: 'd0' }, { device_ip: '81.2.69.160' }],
    [{ device_id: 'd0', user_id: 'u' }, { utm: { utm_source: 'own', utm_campaign: 'mine' } }],
  ];
  const named = (when: string) => shapes.map(([sent, extras], n) => eventWith(`${n} ${when}`, sent, extras));
  await append('event', named('before'));
  await eventually(() => stored('events')).toBe(shapes.length);
  await append('install', [install('d0', { install_id, click_id: 'clk_x', utm_source: 'ads', utm_term: 'shoes' })]);
  await eventually(() => stored('events')).toBe(3 * shapes.length);
  await append('event', named('after'));
  await eventually(() => stored('events')).toBe(4 * shapes.length);
  const columns = `substring(event_id, 1, 1) AS n, name, install_id, device_id, user_id, link_id, click_id, platform, country, campaign,
    utm_source, utm_medium, utm_campaign, utm_term, utm_content, revenue_amount, revenue_currency, is_conversion, properties, waiting_keys`;
  const [before, after] = await Promise.all(
    ["endsWith(event_id, 'before') AND is_learned AND sign = 1", "endsWith(event_id, 'after')"].map((which) =>
      rows<object>(`SELECT ${columns} FROM events WHERE ${ofApp} AND ${which} ORDER BY n`),
    ),
  );
  expect(after).toHaveLength(shapes.length);
  expect(before).toEqual(after);
  await ingest.stop();
}, 240_000);

test('events and installs of different partitions find each other, even after partitions were added', {
  tags: ['slow'],
  timeout: 240_000,
}, async () => {
  app_id = newId('app', Date.now());
  const devices = Array.from({ length: 24 }, (_, n) => n);
  const first = way.ingest();
  await append(
    'event',
    devices.slice(0, 12).map((n) => event(`e${n}`, `d${n}`, HOUR_MS)),
  );
  await eventually(() => stored('events')).toBe(12);
  await first.stop();
  way.more = { REDIS_URL: redisServer.url, LOG_PARTITIONS: '4' };
  const next = way.ingest();
  await append(
    'event',
    devices.slice(12).map((n) => event(`e${n}`, `d${n}`, HOUR_MS)),
    4,
  );
  await eventually(() => stored('events')).toBe(24);
  await append(
    'install',
    devices.map((n) => install(`d${n}`)),
    4,
  );
  await expectAll(24, 0);
  const of = (table: string) => rows(`SELECT uniqExact(log_partition) AS n FROM ${table} WHERE ${ofApp}`);
  expect([await of('events'), await of('installs')]).toEqual([[{ n: 4 }], [{ n: 4 }]]);
  await next.stop();
  way.more = { REDIS_URL: redisServer.url };
});

test('events get their link after Postgres was restored to a time before their partitions were in use, even if they are no longer used', {
  tags: ['slow'],
  timeout: 240_000,
}, async () => {
  app_id = newId('app', Date.now());
  const devices = Array.from({ length: 12 }, (_, n) => n);
  const slot = 'edge-of-4';
  const root = join(way.folder, 'journal');
  const edge = await Journal.open({ root, slot, segmentBytes: 100_000, bytesMax: 1e9, sync: 'after_answer' });
  way.more = { REDIS_URL: redisServer.url, LOG_PARTITIONS: '4' };
  const before = way.ingest();
  await append(
    'event',
    devices.map((n) => event(`e${n}`, `d${n}`, HOUR_MS)),
    4,
    edge,
  );
  await edge.close();
  await eventually(async () => readdirSync(join(root, slot)).filter((name) => !name.startsWith('.'))).toEqual([]);
  await before.stop();
  // Neither a journal nor the log nor Postgres has any of their records.
  await forget([1, 2, 3]);
  way.more = { REDIS_URL: redisServer.url };
  const after = way.ingest();
  await append(
    'install',
    devices.map((n) => install(`d${n}`)),
  );
  await expectAll(devices.length, 0);
  await after.stop();
});

/** Empties partitions of the log, and resets Postgres to its state before they were used. */
async function forget(partitions: readonly number[]): Promise<void> {
  const nats = await Nats.connect({ url: way.nats.url, name: 'test', installation: defaultInstallation });
  for (const partition of partitions) expect(await purgeLog(nats, partition, 1e9)).toBeDefined();
  await nats.close();
  const postgres = new Postgres({ url: way.postgres.url, name: 'test' });
  for (const table of ['lease', 'checkpoint', 'mark', 'batch', 'last_batch', 'late_cursor'])
    await postgres.execute(`DELETE FROM ingest.${table} WHERE partition = ANY ($1)`, [partitions]);
  await postgres.close();
}
