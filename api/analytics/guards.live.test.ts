import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, readLimits, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeRecords, makeTenant, plainFigures, storeRecords } from '#api/testing/records.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { postgresForTest } from '#testing/servers.ts';
import { asOfFrom } from './as-of.ts';
import { rejectionOf } from './ask.ts';

const nowMs = Date.parse('2026-04-10T12:00:00Z');
const mine = makeTenant(1, 3, nowMs);
const other = makeTenant(1, 3, nowMs);
const records = makeRecords(seededRandom(5), mine, 9_000, nowMs - 20 * DAY_MS, nowMs);
const caller = memberOf(mine.organization_id);
let stage: Stage;

beforeAll(async () => {
  stage = await startStage(nowMs, 10);
  for (const tenant of [mine, other]) await storeTenant(stage.db, tenant);
  await storeRecords(stage.clickhouse, records, 'guards');
});
afterAll(() => stage.stop());

test('records older than the retention are not shown, neither from rollups nor from raw rows', async () => {
  const oldest = Math.ceil(nowMs / DAY_MS - 10) * DAY_MS;
  for (const filter of ['', '&platform=ios', '&platform=ios&country=DE', '&timezone=Asia/Kolkata']) {
    const { body } = await stage.get(caller, `/analytics/overview?interval=30d${filter}`);
    const its = records.filter(
      (record) =>
        record.time >= oldest &&
        (!filter.includes('platform') || record.platform === 'ios') &&
        (!filter.includes('country') || record.country === 'DE'),
    );
    expect([body.totals.clicks, body.totals.events]).toEqual([plainFigures(its).clicks, plainFigures(its).events]);
    expect(body.previous.clicks).toBe(0);
  }
});

test('there is no change to a previous period of which some records are no longer shown', async () => {
  for (const path of ['overview', 'page?previous=true&']) {
    const at = path.includes('?') ? path : `${path}?`;
    const changeOf = async (interval: string) => (await stage.get(caller, `/analytics/${at}${interval}`)).body.change;
    expect((await changeOf('start=2026-04-08&end=2026-04-10')).clicks).toBeTypeOf('number');
    const cut = await changeOf('start=2026-04-04&end=2026-04-10');
    expect([cut.clicks, cut.revenue[0].ratio]).toEqual([null, null]);
  }
});

test.each([
  ['rows', { max_rows_to_read: 100 }],
  ['memory', { max_memory_usage: 100_000 }],
])('a query over the limit of %s gets 400 that says how to narrow it', async (_, limits) => {
  const small = await startStage(nowMs, 10_000, { ...limits });
  try {
    for (const tenant of [mine]) await storeTenant(small.db, tenant);
    await storeRecords(small.clickhouse, records, 'limits');
    for (const path of ['overview', 'timeseries', 'top-links', 'top-campaigns']) {
      const { status, body } = await small.get(caller, `/analytics/${path}?interval=30d&platform=ios&country=DE,FR`);
      expect([status, body.error?.details?.field], path).toEqual([400, 'start']);
      expect(body.error.message).toContain('shorter range');
    }
  } finally {
    await small.stop();
  }
});

test('a query that runs too long is stopped by ClickHouse and rejected', async () => {
  const reader = new ClickHouse({ url: await urlOf(), reads: { ...readLimits, executionSecondsMax: 1 } });
  const slow = 'SELECT sum(cityHash64(number, number)) FROM numbers(100000000000)';
  try {
    const error = await reader.query(slow).then(
      () => null,
      (failure: unknown) => failure,
    );
    expect(rejectionOf(error)).toMatchObject({ code: 'VALIDATION_ERROR', errors: [{ field: 'start' }] });
  } finally {
    await reader.close();
  }
});

async function urlOf(): Promise<string> {
  const { inject } = await import('vitest');
  return inject('clickhouseUrl');
}

test('an organization with too many queries gets Retry-After, and others are answered in the meantime', async () => {
  let waiting = 120;
  const flood = Array.from({ length: waiting }, async () => {
    const { status } = await stage.get(caller, '/analytics/timeseries?interval=7d');
    waiting--;
    return status;
  });
  const calm = await stage.get(memberOf(other.organization_id), '/analytics/overview?interval=7d');
  // In the order of their arrival, the calm one would be the last.
  expect([calm.status, waiting]).toEqual([200, expect.toSatisfy((left: number) => left > 5)]);
  const statuses = await Promise.all(flood);
  expect(new Set(statuses)).toEqual(new Set([200, 429]));
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(40);
});

test('while ClickHouse is unavailable, queries get 500 with Retry-After', () => {
  const unreachable = new ClickHouse({ url: 'http://127.0.0.1:9/none' });
  return unreachable
    .query('SELECT 1')
    .then(
      () => null,
      (error: unknown) => rejectionOf(error),
    )
    .then((rejection) => {
      expect(rejection).toMatchObject({ code: 'INTERNAL_ERROR', retryAfterSeconds: 5 });
      return unreachable.close();
    });
});

test('as_of is that of the machine that lags most', async () => {
  const database = await postgresForTest();
  const db = new Postgres({ url: database.url, name: 'as-of-test' });
  const asOf = asOfFrom(db);
  expect(await asOf()).toBe(0);
  await db.execute(
    "INSERT INTO ingest.progress (machine, committed_to) VALUES ('a', 1775822400123), ('b', 1775822400100)",
  );
  expect(await asOf()).toBe(1_775_822_400_100);
  await db.close();
  await database.stop();
});

test('a range with a previous period that begins before 1970 is answered', async () => {
  for (const range of ['start=2000-01-01&end=2040-01-01', 'start=2026-01-01&end=2099-12-31']) {
    const { status, body } = await stage.get(caller, `/analytics/overview?${range}`);
    expect([status, body.totals.clicks, body.previous.clicks]).toEqual([200, expect.any(Number), 0]);
    expect(body.totals.clicks).toBeGreaterThan(0);
  }
});

test('a start within a second gives the same count in every answer', async () => {
  const at = (text: string) => Date.parse(`2026-04-05T${text}Z`);
  const tenant = makeTenant(1, 1, nowMs);
  await storeTenant(stage.db, tenant);
  const clicks = ['12:00:00.200', '12:00:00.500', '12:00:05.200', '13:00:00.499', '13:00:00.500'];
  const [sample] = makeRecords(seededRandom(1), tenant, 100, at('12:00:00.000'), at('13:00:00.000')).filter(
    (record) => record.kind === 'clicks' && !record.is_bot,
  );
  if (!sample) throw new Error('no click was generated');
  await storeRecords(
    stage.clickhouse,
    clicks.map((time, idx) => ({ ...sample, time: at(time), visitor: idx, idx })),
    'within-a-second',
  );
  const who = memberOf(tenant.organization_id);
  const range = 'start=2026-04-05T12:00:00.500Z&end=2026-04-05T13:00:00.500Z';
  const overview = await stage.get(who, `/analytics/overview?${range}`);
  const series = await stage.get(who, `/analytics/timeseries?${range}&granularity=hour`);
  const links = await stage.get(who, `/analytics/top-links?${range}`);
  expect([overview.body.totals.clicks, overview.body.previous.clicks]).toEqual([3, 1]);
  expect(series.body.data.map((bucket: { clicks: number }) => bucket.clicks)).toEqual([2, 1]);
  expect(links.body.data.map((link: { clicks: number }) => link.clicks)).toEqual([3]);
});
