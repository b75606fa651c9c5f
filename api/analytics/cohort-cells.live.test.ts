/**
 * Compares retention and revenue by age, computed from the cells that ingest maintains, with a straightforward
 * calculation, while records arrive and change.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { type DeviceRecords, makeDeviceRecords, storeDeviceRecords } from '#api/testing/device-records.ts';
import { isInstall, type LtvCase, PlainDevices, type RetentionCase, zone } from '#api/testing/plain-devices.ts';
import { makeTenant } from '#api/testing/records.ts';
import { erasePerson } from '#clickhouse/queries/erase.ts';
import { isoTime } from '#common/clock.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { systemTime } from '#common/time.ts';
import { ActiveInstalls } from '#ingest/active-installs.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
/** The end of the last complete quarter of an hour. */
const asOfMs = Date.parse('2026-04-10T12:30:00.000Z');
const range: readonly [number, number] = [nowMs - 70 * DAY_MS, nowMs - 1_500];
const mine = makeTenant(2, 4, nowMs);
const small = makeTenant(1, 2, nowMs);
const random = seededRandom(77);
const days = [0, 1, 2, 7, 14, 30];
const cases: readonly RetentionCase[] = [
  { cohort: 'week', mode: 'on_day' },
  { cohort: 'day', mode: 'on_day', filter: 'DE' },
  { cohort: 'month', mode: 'on_day', group_by: 'campaign' },
  { cohort: 'all', mode: 'on_day', group_by: 'link_id' },
];
const ltvDays = [0, 1, 2, 7, 30];
const ltvCases: readonly LtvCase[] = [
  { cohort: 'week' },
  { cohort: 'day', filter: 'DE' },
  { cohort: 'month', group_by: 'campaign' },
  { cohort: 'all', group_by: 'country' },
  { cohort: 'week', group_by: 'link_id' },
];

let stage: Stage;
let records: DeviceRecords;
let active: ActiveInstalls;
let batches = 0;

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, small]) await storeTenant(stage.db, tenant);
  active = comparing();
  records = { organization_id: mine.organization_id, clicks: [], installs: [], events: [] };
  await addRecords(makeDeviceRecords(random, mine, 6_000, range));
  await active.compare();
});
afterAll(() => stage.stop());

function comparing(): ActiveInstalls {
  return new ActiveInstalls({
    clickhouse: stage.clickhouse,
    asOf: async () => stage.asOfMs,
    unfinished: async () => [],
    isFirst: () => true,
    eventsMin: 1,
    time: systemTime,
    log: () => undefined,
  });
}

async function addRecords(more: DeviceRecords): Promise<void> {
  batches++;
  await storeDeviceRecords(stage.clickhouse, more, `batch-${batches}`, batches);
  records.clicks.push(...more.clicks);
  records.installs.push(...more.installs);
  records.events.push(...more.events);
}

type Given = Readonly<Record<string, string | undefined>>;

async function answerTo(path: string, organizations: readonly string[], { filter, ...own }: Given) {
  const given = { start: '2026-02-05', end: '2026-04-05', timezone: zone.name, country: filter, ...own };
  const query = new URLSearchParams(
    Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  const { status, body } = await stage.get(memberOf(...organizations), `${path}?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body.as_of).toBe(isoTime(asOfMs));
  return { body, within: [Date.parse(body.start), Date.parse(body.end)] as const };
}

async function expectRetention(plain: PlainDevices, organizations: readonly string[], one: RetentionCase) {
  const { body, within } = await answerTo('/analytics/retention', organizations, { ...one, days: days.join() });
  type Row = { start: string; group?: string | null; installs: number; days: { installs: number; retained: number }[] };
  const rows: [string, object][] = (body.data as Row[])
    .filter((row) => row.installs > 0)
    .map((row) => [
      `${Date.parse(row.start)} ${row.group ?? ''}`,
      { installs: row.installs, days: row.days.map(({ installs, retained }) => [installs, retained]) },
    ]);
  expect(rows.length).toBeGreaterThan(0);
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(plain.retention(one, within, days)));
}

async function expectRevenue(plain: PlainDevices, organizations: readonly string[], one: LtvCase) {
  const { body, within } = await answerTo('/analytics/ltv', organizations, { ...one, days: ltvDays.join() });
  type Row = {
    start: string;
    group?: string | null;
    is_rest?: boolean;
    days: { day: number; revenue: { currency: string; amount: string }[] }[];
  };
  const data: Row[] = body.data;
  const shown = new Set(data.filter((row) => !row.is_rest).map((row) => row.group ?? ''));
  const wanted = [...plain.revenue(one, within, ltvDays, shown)].flatMap(([cohort, amounts]) =>
    [...amounts].filter(([, amount]) => amount !== 0).map(([currency, amount]) => [`${cohort} ${currency}`, amount]),
  );
  const found = data.flatMap((row) =>
    row.days.flatMap(({ day, revenue }) =>
      revenue.map(({ currency, amount }) => [
        `${Date.parse(row.start)} ${row.group ?? ''} ${day} ${currency}`,
        Math.round(Number(amount) * 1000),
      ]),
    ),
  );
  expect(found.length).toBeGreaterThan(10);
  expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted));
}

async function expectExact(): Promise<void> {
  const plain = new PlainDevices(records, asOfMs - 1);
  for (const one of cases) await expectRetention(plain, [mine.organization_id], one);
  for (const one of ltvCases) await expectRevenue(plain, [mine.organization_id], one);
}

const figures = () =>
  stage.clickhouse.query(
    "SELECT is_whole, age, currency, sum(installs) AS n, toString(sum(revenue)) AS amount FROM active_installs GROUP BY ALL HAVING n != 0 OR amount != '0' ORDER BY ALL",
  );

test('cells give the results of a straightforward calculation', expectExact);

test('a comparison without new records changes nothing', async () => {
  const before = await figures();
  await active.compare();
  expect(await figures()).toEqual(before);
  await expectExact();
});

test('late events, installs after their events, late attributions and re-engagements are in the next comparison', {
  tags: ['slow'],
}, async () => {
  // The same install ids as before: new events of old installs, and new installs of old events.
  await addRecords(makeDeviceRecords(random, mine, 3_000, range));
  await active.compare();
  await expectExact();
  const [install] = records.installs.filter(({ install_id }) => install_id !== '');
  if (!install) throw new Error('there is no install');
  const overtaken = { ...install, install_id: 'overtaken', trigger: 'install' as const };
  const event = {
    name: 'opened',
    currency: '',
    amount: 0,
    isLearned: true,
    install_id: 'overtaken',
    app_id: install.app_id,
  };
  const none = { organization_id: mine.organization_id, clicks: [] };
  await addRecords({
    ...none,
    installs: [],
    events: [
      { ...event, time: install.time + 1_000 },
      { ...event, time: install.time - MINUTE_MS },
    ],
  });
  await active.compare();
  await expectExact();
  await addRecords({
    ...none,
    installs: [overtaken, { ...overtaken, trigger: 'reengagement', time: install.time + 2 * DAY_MS }],
    events: [],
  });
  await active.compare();
  await expectExact();
});

test('an event that gets its install after the comparison of its day is in the next one, although no count changed', {
  tags: ['slow'],
}, async () => {
  const install = records.installs.find(
    (one) => isInstall(one) && one.install_id !== '' && one.time < nowMs - 40 * DAY_MS,
  );
  if (!install) throw new Error('there is no install');
  const time = install.time + 7 * DAY_MS;
  const store = (rows: readonly (readonly [sign: number, install_id: string])[]) => {
    batches++;
    const common = { organization_id: mine.organization_id, app_id: install.app_id, time_ms: time, batch_no: batches };
    return stage.clickhouse.command(
      `INSERT INTO events (organization_id, app_id, name, time, batch_no, producer_id, revenue_amount, revenue_currency, sign, install_id)
       SELECT {organization_id:String}, {app_id:String}, 'purchase', fromUnixTimestamp64Milli({time_ms:Int64}), {batch_no:UInt64}, 'late', 7.25, 'USD',
         row.1, row.2 FROM (SELECT arrayJoin(arrayZip({signs:Array(Int8)}, {ids:Array(String)})) AS row)`,
      { ...common, signs: rows.map(([sign]) => sign), ids: rows.map(([, id]) => id) },
    );
  };
  await store([[1, '']]);
  await active.compare();
  await expectExact();
  await store([
    [-1, ''],
    [1, install.install_id],
  ]);
  const { install_id, app_id } = install;
  records.events.push({
    ...{ install_id, app_id, time, name: 'purchase', currency: 'USD', amount: 7_250, isLearned: true },
  });
  await active.compare();
  await expectExact();
});

test('an erased person no longer has activity or revenue, but still counts as an install', {
  tags: ['slow'],
}, async () => {
  // People who generated revenue.
  const paid = new Set(records.events.filter(({ amount }) => amount !== 0).map(({ install_id }) => install_id));
  const erased = new Set([...paid].filter((id) => id !== '').slice(0, 3));
  const none = new Set<string>();
  const ids = { device: none, install: erased, user: none, click: none };
  const counts = await erasePerson(
    stage.clickhouse,
    { organization_id: mine.organization_id, app_id: '' },
    ids,
    async (changed) => changed,
  );
  expect(Math.min(counts.events, counts.installs)).toBeGreaterThan(0);
  for (const one of [...records.events, ...records.installs])
    if (erased.has(one.install_id)) Object.assign(one, { install_id: '' });
  await active.compare();
  await expectExact();
});

test.each([
  ['a lost month', 'ALTER TABLE active_installs DROP PARTITION 202603'],
  ['cells that were stored twice', 'INSERT INTO active_installs SELECT * FROM active_installs'],
  ['an empty table', 'TRUNCATE TABLE active_installs'],
])('the next comparison repairs %s', { tags: ['slow'] }, async (_, damage) => {
  await stage.clickhouse.command(damage, {}, { insert_deduplicate: 0 });
  await active.compare();
  await expectExact();
});

test('errors of two concurrent comparisons are corrected by the next one', { tags: ['slow'] }, async () => {
  await addRecords(makeDeviceRecords(random, mine, 500, range));
  await Promise.all([active.compare(), comparing().compare()]);
  await active.compare();
  await expectExact();
});

test('figures of organizations with and without cells are added up', async () => {
  const others = makeDeviceRecords(random, small, 1_000, range);
  await storeDeviceRecords(stage.clickhouse, others, 'small');
  const organizations = [mine.organization_id, small.organization_id];
  const both = {
    ...records,
    installs: [...records.installs, ...others.installs],
    events: [...records.events, ...others.events],
  };
  const plain = new PlainDevices(both, asOfMs - 1);
  for (const one of cases.slice(0, 3)) await expectRetention(plain, organizations, one);
  for (const one of ltvCases) await expectRevenue(plain, organizations, one);
});

const recordsAnswer = async (path: string, given: Readonly<Record<string, string>>) => {
  const query = new URLSearchParams({ start: '2026-02-05', end: '2026-04-05', ...given });
  const { status, body } = await stage.get(memberOf(mine.organization_id), `${path}?${query}`);
  expect([status, body.as_of]).toEqual([200, isoTime(stage.asOfMs)]);
  return body;
};

test('requests that cells cannot answer are answered from records, with the `as_of` of the records', async () => {
  for (const more of [{ mode: 'unbounded' }, { return_event: 'purchase' }, { os: 'iOS' }])
    await recordsAnswer('/analytics/retention', more);
  await recordsAnswer('/analytics/ltv', { os: 'iOS' });
  for (const path of ['/analytics/retention', '/analytics/ltv'])
    await recordsAnswer(path, { start: '2026-03-01T00:01:00Z' });
});

test('an end inside a quarter of an hour that has begun counts only the installs before it', async () => {
  const quarter = asOfMs;
  const { organization_id } = mine;
  const [like] = records.installs;
  if (!like) throw new Error('there is no install');
  const installs = [quarter + MINUTE_MS, quarter + 3 * MINUTE_MS].map((time, at) => ({
    ...like,
    ...{ time, install_id: `in-quarter-${at}`, trigger: 'install' as const },
  }));
  await addRecords({ organization_id, clicks: [], installs, events: [] });
  await active.compare();
  const installsUntil = async (path: string, end: string | undefined) => {
    const query = new URLSearchParams({ start: '2026-04-09', cohort: 'all', ...(end === undefined ? {} : { end }) });
    const { status, body } = await stage.get(memberOf(organization_id), `${path}?${query}`);
    expect(status).toBe(200);
    return [body.data[0].installs, body.as_of];
  };
  const countUntil = (endMs: number) =>
    records.installs.filter((one) => isInstall(one) && one.time >= Date.parse('2026-04-09') && one.time < endMs).length;
  for (const path of ['/analytics/retention', '/analytics/ltv']) {
    const end = quarter + 2 * MINUTE_MS;
    expect(await installsUntil(path, isoTime(end))).toEqual([countUntil(end), isoTime(stage.asOfMs)]);
    // Without an end, or with one that has not come, the cells have all that is stored.
    for (const open of [undefined, isoTime(nowMs), isoTime(nowMs + MINUTE_MS)])
      expect(await installsUntil(path, open)).toEqual([countUntil(nowMs), isoTime(asOfMs)]);
  }
});

test('revenue that was never compared is answered from records, with the same amounts, costs and conversion', async () => {
  await stage.db.execute(
    "INSERT INTO exchange_rates (day, currency, rate) VALUES ('2026-02-01', 'EUR', 1), ('2026-02-01', 'USD', 0.9)",
  );
  await stage.db.execute(
    `INSERT INTO campaign_costs (organization_id, day, campaign, currency, amount, updated_at)
     VALUES ($1, '2026-02-10', 'spring', 'USD', 100.5, now())`,
    [mine.organization_id],
  );
  // Every install has completed these days.
  const given = { end: '2026-03-01', days: '0,7,14', currency: 'EUR', group_by: 'campaign', cohort: 'month' };
  const { body: fromCells } = await answerTo('/analytics/ltv', [mine.organization_id], given);
  expect(JSON.stringify(fromCells.data)).toContain('"ratio"');
  expect(fromCells.conversion.rates).toHaveLength(1);
  // The state that the previous version of ingest leaves.
  await stage.clickhouse.command('TRUNCATE TABLE active_installs_compared');
  await stage.clickhouse.command(
    'INSERT INTO active_installs_compared (organization_id, as_of) SELECT {organization_id:String}, fromUnixTimestamp64Milli({as_of:Int64})',
    { organization_id: mine.organization_id, as_of: stage.asOfMs },
  );
  const fromRecords = await recordsAnswer('/analytics/ltv', { ...given, timezone: zone.name });
  expect(fromCells.data).toEqual(fromRecords.data);
  await answerTo('/analytics/retention', [mine.organization_id], { days: '1' });
});
