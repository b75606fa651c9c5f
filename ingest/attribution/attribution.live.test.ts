import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { readArchiveAnswer } from '#common/attribution/click-archive.ts';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { RecentInstalls } from '#common/attribution/recent-installs.ts';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { type EventDecision, eventJson, eventPrefix, refusedJson } from '#common/log/event-record.ts';
import { type InstallRecord, installJson } from '#common/log/install-record.ts';
import { defaultInstallation } from '#common/log/log-names.ts';
import type { RecordKind } from '#common/log/record.ts';
import { Nats } from '#common/stores/nats.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { Redis } from '#common/stores/redis.ts';
import type { FailpointName } from '#ingest/failpoints.ts';
import { PipelineHarness } from '#ingest/testing/pipeline-harness.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';
import { redisForTest, type TestServer } from '#testing/servers.ts';

const organization_id = newId('org', 1);
let app_id = newId('app', 1);
const link_id = newId('lnk', 1);
let way: PipelineHarness;
let redisServer: TestServer;
let redis: Redis;
let clicks: RecentClicks;

beforeAll(async () => {
  redisServer = await redisForTest();
  redis = new Redis({ url: redisServer.url, name: 'test' });
  await redis.connect();
  clicks = new RecentClicks(redis);
  way = await PipelineHarness.start({ hasOwnClickhouse: true });
  way.more = { REDIS_URL: redisServer.url };
});
afterEach(() => way.stopIngests());
afterAll(async () => {
  await way.stop();
  await redis.close();
  await redisServer.stop();
});

function event(more: Partial<EventDecision> & { sent?: object } = {}): string {
  const { sent, ...decided } = more;
  const now = Date.now();
  const origin = { organization_id, app_id, received_at: now, ip: '8.8.8.8', privacy_mode: 'full_ip' as const };
  const decision = {
    ...{ event_id: newId('evt', now), time: now, revenue_amount: '', revenue_currency: '', is_conversion: false },
    ...{ is_id_made: false, linkFields: '', ...decided },
  };
  return eventJson(
    eventPrefix({ ...origin, defaults: {} }),
    decision,
    JSON.stringify({ name: 'open', device_id: 'd1', ...sent }),
  );
}

function install(more: Partial<InstallRecord> = {}): string {
  const time = Date.now();
  const none = {
    user_id: '',
    match_id: '',
    os_version: '',
    device_model: '',
    app_version: '',
    sdk_name: '',
    sdk_version: '',
    language: '',
    utm_source: '',
    utm_medium: '',
    utm_campaign: '',
    utm_term: '',
    utm_content: '',
  };
  return installJson({
    ...none,
    ...{
      install_id: newId('ins', time),
      organization_id,
      app_id,
      link_id,
      click_id: '',
      device_id: 'd1',
      trigger: 'install',
      time,
      installed_at: time,
    },
    ...{
      match_type: 'none',
      match_guaranteed: false,
      confidence: 0.25,
      attributed: true,
      platform: 'ios',
      privacy_mode: 'anonymize_ip',
    },
    ...{ ip: '8.8.8.8', campaign: 'sale', properties: '{"a":"ü"}', ...more },
  });
}

function testClick(time: number): string {
  return clickJson({
    ...{
      click_id: newId('clk', time),
      organization_id,
      app_id,
      link_id,
      time,
      ip: '8.8.8.8',
      privacy_mode: 'full_ip',
    },
    user_agent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Safari/604.1',
    ...{
      language: 'de-DE',
      referrer: '',
      query: 'a=b',
      campaign: 'spring',
      utm_source: '',
      utm_medium: '',
      utm_campaign: '',
    },
    ...{ utm_term: '', utm_content: '', trigger: 'link', rule: '', is_prefetch: false, is_preview: false },
  });
}

/** Each list becomes one frame. */
async function append(kind: RecordKind, ...turns: string[][]): Promise<void> {
  for (const turn of turns) {
    await Promise.all(
      turn.map(
        (json) =>
          new Promise<void>((done, fail) => {
            way.journal.append(way.journal.lane(kind, 0), json, {
              committed: done,
              refused: () => fail(new Error('refused')),
            });
          }),
      ),
    );
  }
}

const rows = <Row>(sql: string) => way.client.query<Row>(sql, { app_id });
const countOf = async (table: string) =>
  Number((await rows<{ n: number }>(`SELECT count() AS n FROM ${table} WHERE app_id = {app_id:String}`))[0]?.n);
const eventually = (read: () => Promise<unknown>, timeout = 60_000) => expect.poll(read, { timeout, interval: 200 });

test('installs and their events are stored as rows, and events get the link of their install', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const install_id = newId('ins', Date.now());
  await append('install', [install({ install_id })]);
  await eventually(() => countOf('installs')).toBe(1);
  const money = { revenue_amount: '-12345678901234567890.123456789', revenue_currency: 'EUR', is_conversion: true };
  await append('event', [
    event({ event_id: 'a', ...money, sent: { properties: { x: [1, 'é'] } } }),
    event({ event_id: 'b', sent: { device_id: 'other' } }),
  ]);
  await eventually(() => countOf('events')).toBe(2);
  const [first] = await rows<object>(
    'SELECT * EXCEPT (time, installed_at) FROM installs WHERE app_id = {app_id:String}',
  );
  expect(first).toMatchObject({
    install_id,
    ip: '8.8.8.0',
    country: 'US',
    os: 'iOS',
    confidence: 0.25,
    campaign: 'sale',
    properties: '{"a":"ü"}',
  });
  const found = await rows<object>(
    'SELECT event_id, install_id, link_id, campaign, platform, country, toString(revenue_amount) AS amount, is_conversion, properties FROM events WHERE app_id = {app_id:String} ORDER BY event_id',
  );
  expect(found).toEqual([
    {
      event_id: 'a',
      install_id,
      link_id,
      campaign: 'sale',
      platform: 'ios',
      country: 'US',
      amount: '-12345678901234567890.123456789',
      is_conversion: true,
      properties: '{"x":[1,"é"]}',
    },
    {
      event_id: 'b',
      install_id: '',
      link_id: '',
      campaign: '',
      platform: '',
      country: 'US',
      amount: null,
      is_conversion: false,
      properties: '',
    },
  ]);
  await redis.commands.flushall();
  await append('event', [event({ event_id: 'c', sent: { device_id: 'd1' } })]);
  await eventually(() => countOf('events')).toBe(3);
  await ingest.stop();
  await redis.commands.flushall();
  const next = way.ingest();
  await append('event', [event({ event_id: 'd', sent: { device_id: '', install_id } })]);
  await eventually(() => countOf('events')).toBe(4);
  const linked = await rows(
    "SELECT event_id FROM events WHERE app_id = {app_id:String} AND link_id != '' ORDER BY event_id",
  );
  expect(linked).toEqual([{ event_id: 'a' }, { event_id: 'c' }, { event_id: 'd' }]);
  await next.stop();
});

test('the country of an event is its device\u2019s, the same whether Redis or ClickHouse knows the install', {
  tags: ['slow'],
}, async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const install_id = newId('ins', Date.now());
  // A server in the US sends for a device that was installed in Germany.
  await append('install', [install({ install_id, ip: '91.10.10.10' })]);
  await eventually(() => countOf('installs')).toBe(1);
  const none = { campaign: '', utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const facts = { install_id, link_id, click_id: '', platform: 'ios', country: '', network: '91.10.10.0', ...none };
  await new RecentInstalls(redis).put(app_id, 'd1', facts);
  const extras = ',"device_ip":"81.10.10.0"';
  await append('event', [event({ event_id: 'redis' }), event({ event_id: 'own', linkFields: extras })]);
  await eventually(() => countOf('events')).toBe(2);
  await ingest.stop();
  await redis.commands.flushall();
  const next = way.ingest();
  await append('event', [event({ event_id: 'stored' }), event({ event_id: 'unknown', sent: { device_id: 'd9' } })]);
  await eventually(() => countOf('events')).toBe(4);
  const found = await rows<{ event_id: string; country: string }>(
    'SELECT event_id, country FROM events WHERE app_id = {app_id:String}',
  );
  const countries = Object.fromEntries(found.map((row) => [row.event_id, row.country]));
  expect(countries).toMatchObject({ redis: 'DE', stored: 'DE', unknown: 'US' });
  expect(countries['own']).not.toBe('US');
  expect(countries['own']).not.toBe('DE');
  await next.stop();
});

test('an event is joined to its install by an alias of its device, and keeps the campaign that its client sent', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  await append('install', [install({ device_id: 'd1' })]);
  await eventually(() => countOf('installs')).toBe(1);
  const utm = ',"utm_source":"mail","utm_campaign":"spring"';
  await append('event', [
    event({ event_id: 'joined', linkFields: `,"aliases":["d1"]${utm}`, sent: { device_id: 'a1' } }),
    event({ event_id: 'alone', linkFields: utm, sent: { device_id: 'a2' } }),
  ]);
  await eventually(() => countOf('events')).toBe(2);
  const found = await rows<object>(
    `SELECT event_id, device_id, link_id, campaign, utm_source, utm_campaign FROM events
      WHERE app_id = {app_id:String} ORDER BY event_id`,
  );
  const named = { utm_source: 'mail', utm_campaign: 'spring' };
  expect(found).toEqual([
    { event_id: 'alone', device_id: 'a2', link_id: '', campaign: '', ...named },
    { event_id: 'joined', device_id: 'a1', link_id, campaign: 'sale', ...named },
  ]);
  await ingest.stop();
});

testCostlyCases<FailpointName>(
  ['inserted', 'formed', 'part_inserted', 'after'],
  0,
  'events and installs sent again are counted once when ingest dies at %s',
  async (failpoint) => {
    app_id = newId('app', Date.now());
    const dying = way.ingest(`${failpoint}:2`);
    const distinct = 60;
    const again = install({ install_id: 'same' });
    const isDead = () => dying.process.exitCode !== null || dying.process.signalCode !== null;
    const some = async (from: number) => {
      for (let n = from; n < from + 90; n += 6) {
        const ids = Array.from({ length: 6 }, (_, at) => `e${(n * 7 + at * 13) % distinct}`);
        await append(
          'event',
          ids.map((event_id) => event({ event_id })),
        );
        if (n % 30 === 0) await append('install', [again]);
      }
    };
    await some(0);
    await eventually(async () => isDead() || (await countOf('events')) > 0).toBe(true);
    await some(90);
    await eventually(async () => isDead()).toBe(true);
    const next = way.ingest();
    await append(
      'event',
      Array.from({ length: distinct }, (_, n) => event({ event_id: `e${n}` })),
    );
    await append('event', [event({ event_id: 'last' })]);
    await eventually(
      () => rows(`SELECT count() AS n FROM events WHERE app_id = {app_id:String} AND event_id = 'last'`),
      25_000,
    ).toEqual([{ n: 1 }]);
    await eventually(() => countOf('installs')).toBe(1);
    expect(await countOf('events')).toBe(distinct + 1);
    // The rollups receive an insert shortly after the raw table.
    const rolled = 'SELECT sum(rows)::UInt32 AS n FROM events_by_link WHERE app_id = {app_id:String}';
    await eventually(() => rows(rolled)).toEqual([{ n: distinct + 1 }]);
    await next.stop();
  },
);

test('an invalid event or install becomes a dead letter, and the records beside it are stored', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const before = Number((await way.client.query<{ n: number }>('SELECT count() AS n FROM dead_letters'))[0]?.n);
  const bad = [
    '{',
    '[]',
    '{"v":1}',
    event({ event_id: '' }),
    event().replace('"time":', '"time":-'),
    event({ sent: { name: '\0' } }),
    event({ sent: { name: 'x'.repeat(200) } }),
  ];
  const origin = { organization_id, app_id, received_at: Date.now(), ip: '', privacy_mode: 'full_ip' as const };
  bad.push(
    refusedJson(eventPrefix({ ...origin, defaults: {} }), 'bad_currency', 'must be an ISO 4217 code', '{"a":1}'),
  );
  await append('event', [event({ event_id: 'x1' }), ...bad, event({ event_id: 'x2' })]);
  await append('install', ['{"v":1}', install({ install_id: 'i1' })]);
  await eventually(() => countOf('installs')).toBe(1);
  await eventually(() => countOf('events')).toBe(2);
  await eventually(async () =>
    Number((await way.client.query<{ n: number }>('SELECT count() AS n FROM dead_letters'))[0]?.n),
  ).toBe(before + bad.length + 1);
  const [refused] = await rows(
    `SELECT reason, JSONExtractRaw(record, 'excerpt') AS excerpt FROM dead_letters WHERE position(record, {app_id:String}) > 0 AND reason = 'bad_currency'`,
  );
  expect(refused).toEqual({ reason: 'bad_currency', excerpt: '{"a":1}' });
  await ingest.stop();
});

test('a click reaches Redis within seconds while ClickHouse is unavailable, and is found in ClickHouse after Redis loses it', async () => {
  const ingest = way.ingest();
  const warm = testClick(Date.now());
  await append('click', [warm]);
  const parse = (line: string): { click_id: string; app_id: string } => JSON.parse(line);
  await eventually(async () => (await clicks.byIds([parse(warm).click_id]))[0]?.click_id).toBe(parse(warm).click_id);
  await way.clickhouse.kill('SIGSTOP');
  const click = testClick(Date.now());
  const { click_id } = parse(click);
  await append('click', [click]);
  await eventually(async () => (await clicks.byIds([click_id]))[0]?.campaign).toBe('spring');
  // This key and the click by its id are written concurrently, in either order.
  const near = async () => (await clicks.gather(parse(click).app_id, '', '8.8.8.8', [click_id])).near;
  await eventually(async () => (await near()).map((one) => one.click_id)).toContain(click_id);
  await way.clickhouse.kill('SIGCONT');
  await eventually(async () => rows(`SELECT count() AS n FROM clicks WHERE click_id = '${click_id}'`)).toEqual([
    { n: 1 },
  ]);
  const nats = await Nats.connect({ url: way.nats.url, name: 'asker', installation: defaultInstallation });
  const ask = async (question: object) => {
    const answer = await nats.request(nats.names.archive, Buffer.from(JSON.stringify(question)), 3_000);
    return answer && readArchiveAnswer(answer.bytes);
  };
  expect(await ask({ organization_id, app_id: parse(click).app_id, click_id })).toMatchObject({
    click: { click_id, campaign: 'spring', query: 'a=b' },
    claimed_by: '',
  });
  expect(await ask({ organization_id, app_id: newId('app', 7), click_id: newId('clk', 7) })).toBe('unknown');
  expect(await ask({ organization_id: newId('org', 7), app_id, click_id: newId('clk', 7) })).toBe('unknown');
  await nats.close();
  await ingest.stop();
});

test('a click that is not stored is pending until all records of its time are stored, and unavailable while ClickHouse is down', async () => {
  const ingest = way.ingest();
  const nats = await Nats.connect({ url: way.nats.url, name: 'asker', installation: defaultInstallation });
  const ask = async (time: number) => {
    const question = { organization_id, app_id, click_id: newId('clk', time) };
    const answer = await nats.request(nats.names.archive, Buffer.from(JSON.stringify(question)), 3_000);
    return answer && readArchiveAnswer(answer.bytes);
  };
  const db = new Postgres({ url: way.postgres.url, name: 'test' });
  const report = (ms: number) =>
    db.execute(
      `INSERT INTO ingest.progress (machine, committed_to) VALUES ('cut off', $1)
       ON CONFLICT (machine) DO UPDATE SET committed_to = excluded.committed_to`,
      [Math.floor(ms)],
    );
  const time = Date.now() - 40 * 60_000;
  await report(time - 60_000);
  await eventually(() => ask(time)).toBe('pending');
  // An edge that never returns does not keep clicks pending forever.
  expect(await ask(Date.now() - 25 * 3_600_000)).toBe('unknown');
  await report(time + 60_000);
  await eventually(() => ask(time)).toBe('unknown');
  await db.execute("DELETE FROM ingest.progress WHERE machine = 'cut off'");
  await db.close();
  await way.clickhouse.kill('SIGKILL');
  await eventually(() => ask(time)).toBe('unavailable');
  await way.clickhouse.restart();
  await eventually(() => ask(time)).toBe('unknown');
  await nats.close();
  await ingest.stop();
});

test('an event gets the link of a click that Redis no longer has, within the attribution window', async () => {
  app_id = newId('app', Date.now());
  const ingest = way.ingest();
  const hour = 3_600_000;
  const [recent, old] = [testClick(Date.now() - 2 * hour), testClick(Date.now() - 169 * hour)];
  await append('click', [recent, old]);
  await eventually(() => countOf('clicks')).toBe(2);
  const idOf = (line: string): string => JSON.parse(line).click_id;
  expect(await clicks.byIds([idOf(recent)])).toEqual([null]);
  const of = (event_id: string, click_id: string) => event({ event_id, sent: { click_id, platform: 'ios' } });
  await append('event', [of('a', idOf(recent)), of('b', idOf(old)), of('c', newId('clk', Date.now() - hour))]);
  await eventually(() => countOf('events')).toBe(3);
  const found = await rows(
    'SELECT event_id, click_id, link_id, campaign FROM events WHERE app_id = {app_id:String} ORDER BY event_id',
  );
  expect(found).toEqual([
    { event_id: 'a', click_id: idOf(recent), link_id, campaign: 'spring' },
    { event_id: 'b', click_id: '', link_id: '', campaign: '' },
    { event_id: 'c', click_id: '', link_id: '', campaign: '' },
  ]);
  await ingest.stop();
});

test('after a kill between the installs and the events of a batch, the rest is stored once and without waiting', {
  tags: ['slow'],
}, async () => {
  app_id = newId('app', Date.now());
  const [install_id, device_id] = [newId('ins', Date.now()), 'd2'];
  const some = Array.from({ length: 20 }, (_, n) => event({ event_id: `e${n}`, sent: { device_id } }));
  await append('install', [install({ install_id, device_id })]);
  await append('event', some, [event({ event_id: 'e3', sent: { device_id } })]);
  const killed = way.ingest('part_inserted:1');
  await killed.exited;
  expect([await countOf('installs'), await countOf('events')]).toEqual([1, 0]);
  const next = way.ingest();
  await eventually(() => countOf('events'), 10_000).toBe(20);
  expect(await countOf('installs')).toBe(1);
  await next.stop();
  expect(next.output).toContain('"outcome":"partial"');
});
