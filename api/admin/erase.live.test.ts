import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { audit } from '#clickhouse/queries/audit.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/journal/journal.ts';
import { nodeSystem } from '#common/journal/system.ts';
import { eventJson, eventPrefix, extrasJson } from '#common/log/event-record.ts';
import { decodeInstall, installJson } from '#common/log/install-record.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { matchJson } from '#common/log/match-record.ts';
import type { RecordKind } from '#common/log/record.ts';
import { loadConfig } from '#common/process/config.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import { plainMatch } from '#common/testing/match-record.ts';
import { noFailpoints } from '#ingest/failpoints.ts';
import { Ingest } from '#ingest/ingest.ts';
import { testClick } from '#ingest/testing/pipeline-harness.ts';
import { migratePostgres } from '#pg-migrations/migrate.ts';
import { Publisher } from '#publisher/publisher.ts';
import {
  migrateForTest,
  natsForTest,
  ownClickhouseForTest,
  ownPostgresForTest,
  redisForTest,
  type TestServer,
} from '#testing/servers.ts';
import { type EraseRequest, type EraseStores, erase, requestOf } from './erase.ts';

const folder = mkdtempSync(join(tmpdir(), 'signpost-erase-'));
const journalRoot = join(folder, 'journal');
const organization_id = newId('org', 1);
const app_id = newId('app', 1);
const link_id = newId('lnk', 1);
const servers: Record<'postgres' | 'clickhouse' | 'nats' | 'redis', TestServer> = Object.create(null);
let stores: EraseStores & { db: Postgres; clickhouse: ClickHouse; redis: Redis; nats: Nats };
let publisher: Publisher;
let ingest: Ingest;
let slots = 0;

/** Each person has unique ids. */
interface TestPerson {
  readonly click: string;
  readonly device: string;
  readonly install: string;
  readonly user: string;
  readonly address: string;
}
let count = 0;
/** On a busy server. On an idle one, replaced parts stay for 8 minutes, and the cleanup runs every 5. */
const inAHurry =
  'old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1';
function testPerson(): TestPerson {
  const n = ++count;
  const mark = `${n}-${Math.random().toString(36).slice(2)}-${'x'.repeat(8)}`;
  return {
    click: newId('clk', Date.now()),
    device: `device-ü-${mark}`,
    install: `install-${mark}`,
    user: `user-${mark}@example.com`,
    address: `203.0.113.${n}`,
  };
}

beforeAll(async () => {
  [servers.postgres, servers.clickhouse, servers.nats, servers.redis] = await Promise.all([
    ownPostgresForTest(),
    ownClickhouseForTest(),
    natsForTest(),
    redisForTest(),
  ]);
  await migratePostgres({ url: servers.postgres.url });
  const clickhouse = new ClickHouse({ url: `${servers.clickhouse.url}/test`, requestTimeoutMs: MINUTE_MS });
  await migrateForTest(clickhouse);
  for (const table of ['clicks', 'installs', 'events', 'matches', 'dead_letters']) {
    await clickhouse.command(`ALTER TABLE ${table} MODIFY SETTING ${inAHurry}`);
  }
  // The cleanup of a table notices a new delay only after the old one.
  await servers.clickhouse.restart();
  const db = new Postgres({ url: servers.postgres.url, name: 'erase-test', statementTimeoutMs: MINUTE_MS });
  await db.execute(`INSERT INTO organizations (id, name) VALUES ($1, 'Engines')`, [organization_id]);
  await db.execute(
    `INSERT INTO apps (id, organization_id, name, host, settings, api_key_ciphertext, api_key_hash, api_key_preview,
       created_at, updated_at) VALUES ($1, $2, 'App', 'a.localhost', '{}', 'x', 'x', 'x', now(), now())`,
    [app_id, organization_id],
  );
  const redis = new Redis({ url: servers.redis.url, name: 'erase-test', commandTimeoutMs: 10_000 });
  await redis.connect();
  const nats = await Nats.connect({ url: servers.nats.url, name: 'erase-test', installation: defaultInstallation });
  stores = { db, clickhouse, redis, nats, clock: Date.now };
  publisher = new Publisher({
    root: journalRoot,
    machine: 'test',
    nats,
    system: nodeSystem,
    ensureLog: () => keepLogStream(nats, { bytesMax: 1e9, replicas: 1 }, () => undefined),
    onDamage: (_, reason) => expect.unreachable(reason),
    log: () => undefined,
  });
  await publisher.start();
  const settings = {
    DATABASE_URL: servers.postgres.url,
    CLICKHOUSE_URL: `${servers.clickhouse.url}/test`,
    NATS_URL: servers.nats.url,
    REDIS_URL: servers.redis.url,
    LOG_BYTES_MAX: String(1e9),
    INGEST_FLUSH_INTERVAL_MS: '20',
  };
  ingest = await Ingest.create({
    config: loadConfig([], settings),
    failpoints: noFailpoints,
    log: () => undefined,
    end: () => undefined,
  });
  ingest.start();
}, 2 * MINUTE_MS);
afterAll(async () => {
  await ingest.stop();
  await publisher.stop();
  await Promise.all([stores.db.close(), stores.clickhouse.close(), stores.redis.close(), stores.nats.close()]);
  await Promise.all(Object.values(servers).map((server) => server.stop()));
  rmSync(folder, { recursive: true });
}, MINUTE_MS);

/** Records of one edge process, from its start to its end. */
async function journalled(lines: readonly (readonly [RecordKind, string])[], root = journalRoot): Promise<void> {
  const slot = `edge-${++slots}`;
  const journal = await Journal.open({
    root,
    slot,
    segmentBytes: 100_000,
    bytesMax: 1e9,
    sync: 'after_answer',
  });
  await Promise.all(
    lines.map(
      ([kind, line]) =>
        new Promise<void>((committed, fail) => {
          const waiter = { committed, refused: () => fail(new Error('refused')) };
          journal.append(journal.lane(kind, 0), line, waiter);
        }),
    ),
  );
  await journal.close();
}

function clickOf({ click, address }: TestPerson, time: number): string {
  const line = JSON.parse(testClick(time));
  const { ip: _, ...rest } = line;
  return JSON.stringify({
    ...rest,
    ...{ click_id: click, organization_id, app_id, link_id, privacy_mode: 'full_ip', ip: address },
  });
}

function installOf({ click, device, install, user, address }: TestPerson, time: number): string {
  const none = { os_version: '', device_model: '', app_version: '', sdk_name: '', sdk_version: '', language: '' };
  const utm = { campaign: 'c', utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  return installJson({
    ...{ install_id: install, organization_id, app_id, link_id, click_id: click, device_id: device, user_id: user },
    ...{ match_id: 'm', match_type: 'click_id', ip: address, ...none, ...utm, time, installed_at: time },
    ...{
      match_guaranteed: true,
      confidence: 1,
      attributed: true,
      trigger: 'install',
      platform: 'ios',
      privacy_mode: 'full_ip',
    },
    properties: JSON.stringify({ of: user }),
  });
}

/** An app opening through a link on the device. */
function openingOf(one: TestPerson, time: number): string {
  const install = decodeInstall(installOf({ ...one, user: '' }, time));
  if (typeof install === 'string') throw new Error(install);
  const id = newId('mat', time);
  return installJson({ ...install, install_id: id, match_id: id, trigger: 'reengagement' });
}

/** A match request of a device and the clicks that it was compared with. */
function matchOf(
  { device, install, click, address }: TestPerson,
  time: number,
  clicks: string[],
): [RecordKind, string] {
  const signals = { family: 'ios', device_model: 'iphone15,2' } as const;
  const candidates = clicks.map((click_id) => {
    return { click_id, link_id, age_ms: 5, browser: '', signals, gate: null, confidence: 0.9, factors: [] };
  });
  const given = { outcome: 'matched', match_type: 'click_id', click_id: click, shadow_click_id: click, link_id };
  const asked = { time, device_id: device, install_id: install, ip: address, privacy_mode: 'full_ip' as const };
  const detail = { candidates, candidates_total: clicks.length };
  return ['match', matchJson(plainMatch({ organization_id, app_id }, { ...given, ...asked, detail }))];
}

/** An event that names only its install, one that names only its user, and a malformed one that names its device. */
function eventsOf({ device, install, user, address }: TestPerson, received_at: number): [RecordKind, string][] {
  const prefix = eventPrefix({
    organization_id,
    app_id,
    received_at,
    ip: address,
    privacy_mode: 'full_ip',
    defaults: {},
  });
  const decision = () => ({
    ...{ event_id: newId('evt', received_at), time: received_at, is_conversion: true, is_id_made: true },
    ...{ revenue_amount: '2.5', revenue_currency: 'EUR', linkFields: '' },
  });
  const event = (sent: object) => eventJson(prefix, decision(), JSON.stringify(sent));
  const broken = event({ name: 'open', device_id: device }).replace('"name":"open"', '"name":7');
  return [
    ['event', event({ name: 'buy', install_id: install, properties: { who: user } })],
    ['event', event({ name: 'open', device_id: device, user_id: user })],
    ['event', broken],
  ];
}

/** Events that name another device, with the person's as an alias: one a minute old, one too old for any install. */
function earlyEventsOf({ device, address }: TestPerson, received_at: number): [RecordKind, string][] {
  const origin = { organization_id, app_id, received_at, ip: address, privacy_mode: 'full_ip' as const, defaults: {} };
  const extras = extrasJson({ device_ip: '', aliases: [device], utm: {} }, 'full_ip');
  return [MINUTE_MS, 20 * DAY_MS].map((ago) => {
    const decision = { event_id: newId('evt', received_at), time: received_at - ago, is_conversion: false };
    const money = { is_id_made: true, revenue_amount: '', revenue_currency: '', linkFields: extras };
    return ['event', eventJson(eventPrefix(origin), { ...decision, ...money }, '{"name":"early","device_id":"web"}')];
  });
}

/** What the gateway and ingest store about a person besides the records. */
async function keepBeside({ click, device, install }: TestPerson): Promise<void> {
  const { db, redis } = stores;
  const answer = JSON.stringify({ match_id: `mat-${click}`, app_id, click_id: click });
  await db.execute(
    `INSERT INTO install_answers (app_id, install_id, click_id, answer, created_at) VALUES ($1, $2, $3, $4, now())`,
    [app_id, install, click, answer],
  );
  await db.execute(`INSERT INTO install_names (app_id, name, install_id) VALUES ($1, $2, $3), ($1, $4, $3)`, [
    ...[app_id, `d:${device}`, install, `i:${install}`],
  ]);
  await db.execute(
    `INSERT INTO claims (click_id, app_id, device, match_id, answer, expires_at) VALUES ($1, $2, $3, $4, $5, now() + interval '1 day')`,
    [click, app_id, device, `mat-${click}`, answer],
  );
  await db.execute('ANALYZE');
  const utm = { campaign: '', utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  await new RecentClicks(redis).put([
    {
      click: { click_id: click, app_id, link_id, time: Date.now(), query: '', ...utm },
      is_bot: false,
      near: { address: 'hash', browser: { user_agent: 'a', language: 'b' }, windowMs: 6 * HOUR_MS },
    },
  ]);
  await redis.commands.set(`claim:${click}`, device);
  await redis.commands.set(`signals:${click}`, `{"timezone":"${device}"}`);
  await redis.commands.set(`match:${app_id}:${device}`, answer);
  await redis.commands.set(`match_id:mat-${click}`, answer);
  await redis.commands.set(`open:${app_id}:${device}:https://a.localhost/x`, answer);
  const facts = { install_id: install, link_id, click_id: click, platform: 'ios', country: '', ...utm };
  await new RecentInstalls(redis).put(app_id, device, facts);
}

async function sums(): Promise<unknown> {
  return await stores.clickhouse.query(`
    SELECT (SELECT count() FROM clicks) AS clicks, (SELECT count() FROM installs) AS installs, (SELECT sum(sign) FROM events) AS events,
           (SELECT count() FROM dead_letters) AS dead_letters, (SELECT count() FROM matches) AS matches, (SELECT sum(rows) FROM clicks_by_link) AS clicks_by_link,
           (SELECT uniqCombinedMerge(15)(visitors) FROM clicks_by_link) AS visitors,
           (SELECT sum(revenue) FROM events_by_link) AS revenue, (SELECT sum(revenue_amount * sign) FROM events) AS amounts`);
}

async function stored(records: number): Promise<void> {
  const counted = async () => {
    const [row] = await stores.clickhouse.query<{ rows: number }>(
      'SELECT (SELECT count() FROM clicks) + (SELECT count() FROM installs) + (SELECT countIf(NOT is_learned) FROM events) + (SELECT count() FROM matches) + (SELECT count() FROM dead_letters) AS rows',
    );
    return Number(row?.rows);
  };
  await expect.poll(counted, { timeout: MINUTE_MS, interval: 100 }).toBe(records);
}

/** The ids as they appear in files: UTF-8, or JSON in ASCII. */
function textsOf({ click, device, install, user }: TestPerson): string[] {
  return [click, device.slice(device.lastIndexOf('ü') + 1), install, user];
}

/** Which texts appear in which files of a folder, while its server creates and deletes files. */
function found(root: string, texts: readonly string[]): string[] {
  return unlessGone(() => readdirSync(root, { withFileTypes: true }), []).flatMap((entry) => {
    const path = join(root, entry.name);
    if (entry.isDirectory()) return found(path, texts);
    if (!entry.isFile()) return [];
    const bytes = unlessGone<Buffer>(() => readFileSync(path), Buffer.alloc(0));
    return texts.filter((text) => bytes.includes(text)).map((text) => `${path}: ${text}`);
  });
}

/** The content, or `nothing` if the file was deleted in the meantime. */
function unlessGone<T>(read: () => T, nothing: T): T {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return nothing;
  }
}

async function inRedis(texts: readonly string[]): Promise<string[]> {
  const { commands } = stores.redis;
  const lines = await Promise.all(
    (await commands.keys('*')).map(async (key) =>
      (await commands.type(key)) === 'zset'
        ? `${key} ${await commands.zrange(key, '0', '-1')}`
        : `${key} ${await commands.get(key)}`,
    ),
  );
  // Clicks and apps are identified there by the end of their ids.
  const ends = texts.map((text) => (text.startsWith('clk_') ? text.slice(14) : text.replace(/^app_/, '')));
  return lines.filter((line) => ends.some((text) => line.includes(text)));
}

const noPerson = {
  organization: 'Engines',
  device: [],
  install: [],
  user: [],
  isEverybody: false,
  waitMs: 2 * MINUTE_MS,
};
const request = (more: Partial<EraseRequest>): EraseRequest => ({ ...noPerson, ...more });

test('after an erasure no file of any store contains an id of the person; aggregates and data of others are unchanged', {
  tags: ['slow'],
  timeout: 6 * MINUTE_MS,
}, async () => {
  const [ada, bob] = [testPerson(), testPerson()];
  const now = Date.now();
  await journalled(earlyEventsOf(ada, now));
  await stored(2);
  for (const one of [ada, bob]) {
    const lines = [installOf(one, now), openingOf(one, now)].map((line) => ['install', line] as const);
    await keepBeside(one);
    await journalled([['click', clickOf(one, now)], ...lines, ...eventsOf(one, now)]);
  }
  // Bob's device was compared with Ada's click too.
  await journalled([matchOf(ada, now, [ada.click]), matchOf(bob, now, [bob.click, ada.click])]);
  await stored(16);
  // The event that arrived before its install has been assigned its link by now, in two more rows.
  const learned =
    'SELECT count() AS rows, sum(sign) AS events, max(link_id) AS link FROM events WHERE is_learned AND name = {name:String}';
  await expect
    .poll(() => stores.clickhouse.query(learned, { name: 'early' }), { timeout: MINUTE_MS })
    .toEqual([{ rows: 2, events: 0, link: link_id }]);
  // A disconnected edge has more of Ada's records.
  const lateJournals = join(folder, 'late-journals');
  await journalled([['click', clickOf(ada, now)], ...eventsOf(ada, now), matchOf(ada, now, [ada.click])], lateJournals);
  const before = await sums();
  const texts = textsOf(ada);
  // Proves that the search works: at this point, files of all stores contain the ids.
  for (const store of ['postgres', 'clickhouse', 'nats'] as const) {
    expect(found(servers[store].dataDir, texts), store).not.toEqual([]);
  }
  expect(await inRedis(texts)).not.toEqual([]);
  const ofBob = (await inRedis(textsOf(bob))).length;

  const lines = await erase(stores, request({ device: [ada.device] }));
  // Six rows of four events; eight if ingest has just found that another event has no install.
  expect(lines[0]).toMatch(/^blanked 1 clicks, 2 installs, [68] events, 2 matches, 1 refused records$/);
  expect(await inRedis(texts)).toEqual([]);
  for (const root of [journalRoot, ...Object.values(servers).map(({ dataDir }) => dataDir)]) {
    await expect.poll(() => found(root, texts), { timeout: 3 * MINUTE_MS, interval: 500 }).toEqual([]);
  }
  expect(await sums()).toEqual(before);
  const report = await audit(stores.clickhouse, { from_ms: now - DAY_MS, to_ms: now + DAY_MS });
  expect(report).toMatchObject({ lost: 0, duplicated: 0, rollup_difference: 0, faults: [] });
  const left = await stores.clickhouse.query(
    "SELECT device_id, install_id, user_id, click_id, ip, link_id, campaign FROM installs WHERE trigger = 'install' ORDER BY install_id",
  );
  const kept = { link_id, campaign: 'c' };
  expect(left).toEqual([
    { device_id: '', install_id: '', user_id: '', click_id: '', ip: '', ...kept },
    {
      device_id: bob.device,
      install_id: bob.install,
      user_id: bob.user,
      click_id: bob.click,
      ip: bob.address,
      ...kept,
    },
  ]);
  const opened = await stores.clickhouse.query(
    "SELECT device_id, match_id != '' AS has_match FROM installs WHERE trigger = 'reengagement' ORDER BY device_id",
  );
  expect(opened).toEqual([
    { device_id: '', has_match: 0 },
    { device_id: bob.device, has_match: 1 },
  ]);
  expect(await inRedis(textsOf(bob))).toHaveLength(ofBob);

  // A late journal: records sent before the erasure are stored blank; later ones count as a new person.
  cpSync(lateJournals, journalRoot, { recursive: true, filter: (file) => !file.endsWith('.lock') });
  await stored(21);
  expect(found(servers.clickhouse.dataDir, texts)).toEqual([]);
  const blank = `SELECT count() AS clicks, countIf(platform = 'ios' AND NOT is_bot) AS people, countIf(click_id = '') AS blank FROM clicks`;
  expect(await stores.clickhouse.query(blank)).toEqual([{ clicks: 3, people: 3, blank: 2 }]);
  const later = Date.now();
  const reinstalled = { ...ada, install: `new-${ada.install}` };
  await journalled([['install', installOf(reinstalled, later)], ...eventsOf(reinstalled, later).slice(0, 2)]);
  await stored(24);
  const again = 'SELECT install_id FROM installs WHERE device_id = {id:String}';
  expect(await stores.clickhouse.query(again, { id: ada.device })).toEqual([{ install_id: reinstalled.install }]);
});

test('ids linked to more ids than one person has are rejected, and nothing is erased', async () => {
  const shared = '00000000-0000-0000-0000-000000000000';
  await stores.clickhouse.command(
    `INSERT INTO installs (organization_id, app_id, install_id, device_id, time, log_partition)
     SELECT {o:String}, {a:String}, toString(number), {d:String}, now(), 9 FROM numbers(1000)`,
    { o: organization_id, a: app_id, d: shared },
  );
  await expect(erase(stores, request({ device: [shared] }))).rejects.toThrow('are linked to more than 300 others');
  expect(await stores.db.query('SELECT FROM ingest.erasure WHERE until_ms > $1', [Date.now() - 1_000])).toEqual([]);
});

test('erasing the people of one organization leaves those of other organizations unchanged', {
  tags: ['slow'],
  timeout: 3 * MINUTE_MS,
}, async () => {
  const [one, foreign] = [testPerson(), testPerson()];
  await journalled([['install', installOf(one, Date.now())]]);
  await keepBeside(one);
  await stores.clickhouse.command(
    `INSERT INTO installs (organization_id, app_id, install_id, device_id, time, log_partition) VALUES ('org_2', 'app_2', {i:String}, {d:String}, now(), 9)`,
    { i: foreign.install, d: foreign.device },
  );
  await erase(stores, request({ isEverybody: true }));
  const ofInstalls = (name: string) =>
    stores.clickhouse.query(`SELECT DISTINCT ${name} AS id FROM installs ORDER BY id`);
  expect(await ofInstalls('device_id')).toEqual([{ id: '' }, { id: foreign.device }]);
  expect(await inRedis([app_id])).toEqual([]);
  expect(await stores.db.query('SELECT FROM install_names')).toEqual([]);
});

test('while ingest is behind, an erasure does what it can and reports that it is incomplete', async () => {
  const [cy, neighbor] = [testPerson(), testPerson()];
  // The same position in another partition of the log: each partition numbers its own frames.
  for (const [{ install: i, device: d }, p] of [
    [cy, 9],
    [neighbor, 8],
  ] as const)
    await stores.clickhouse.command(
      `INSERT INTO installs (organization_id, app_id, install_id, device_id, time, log_partition) VALUES ({o:String}, {a:String}, {i:String}, {d:String}, now(), {p:UInt16})`,
      { o: organization_id, a: app_id, i, d, p },
    );
  await expect(erase(stores, request({ device: [cy.device], waitMs: 0 }))).rejects.toThrow(
    /blanked 0 clicks, 1 installs.*Run the same command again/,
  );
  const left = 'SELECT install_id FROM installs WHERE device_id IN {of:Array(String)}';
  expect(await stores.clickhouse.query(left, { of: [cy.device, neighbor.device] })).toEqual([
    { install_id: neighbor.install },
  ]);
  await expect(erase(stores, request({ device: ['x'], organization: 'Unknown' }))).rejects.toThrow(
    'no organization Unknown',
  );
  await expect(erase(stores, request({ device: ['x'], app: newId('app', 9) }))).rejects.toThrow('has no app');
});

test.each([
  [{}, '--organization is missing'],
  [{ organization: 'x' }, 'give --device'],
  [{ organization: 'x', device: ['d'], everybody: true }, 'give --device'],
  [{ organization: 'x', app: 'a', everybody: true }, 'all apps'],
  [{ organization: 'x', device: ['d'], wait: 'soon' }, '--wait'],
])('the options %j are rejected as incomplete or contradictory', (options, message) => {
  expect(() => requestOf({ wait: '1', ...options })).toThrow(message);
});
