/** Retention from the cells that ingest keeps, against a plain calculation, while records come and change. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { type DeviceRecords, makeDeviceRecords, storeDeviceRecords } from '#api/testing/device-records.ts';
import { PlainDevices, type RetentionCase, zone } from '#api/testing/plain-devices.ts';
import { makeTenant } from '#api/testing/records.ts';
import { erasePerson } from '#clickhouse/queries/erase.ts';
import { isoTime } from '#common/clock.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { systemTime } from '#common/time.ts';
import { ActiveInstalls } from '#ingest/active-installs.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
/** The end of the last whole quarter of an hour. */
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
    isFirst: () => true,
    eventsMin: 1,
    time: systemTime,
    log: () => undefined,
  });
}

async function addRecords(more: DeviceRecords): Promise<void> {
  await storeDeviceRecords(stage.clickhouse, more, `batch-${batches++}`);
  records.clicks.push(...more.clicks);
  records.installs.push(...more.installs);
  records.events.push(...more.events);
}

async function answerTo(organizations: readonly string[], { cohort, mode, group_by, filter }: RetentionCase) {
  const given = {
    start: '2026-02-05',
    end: '2026-04-05',
    timezone: zone.name,
    cohort,
    mode,
    group_by,
    country: filter,
    days: days.join(),
  };
  const query = new URLSearchParams(
    Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  const { status, body } = await stage.get(memberOf(...organizations), `/analytics/retention?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  type Row = { start: string; group?: string | null; installs: number; days: { installs: number; retained: number }[] };
  const rows: [string, object][] = (body.data as Row[])
    .filter((row) => row.installs > 0)
    .map((row) => [
      `${Date.parse(row.start)} ${row.group ?? ''}`,
      { installs: row.installs, days: row.days.map(({ installs, retained }) => [installs, retained]) },
    ]);
  return {
    as_of: body.as_of,
    within: [Date.parse(body.start), Date.parse(body.end)] as const,
    cohorts: Object.fromEntries(rows),
  };
}

async function expectExact(): Promise<void> {
  const plain = new PlainDevices(records, asOfMs - 1);
  for (const one of cases) {
    const { as_of, within, cohorts } = await answerTo([mine.organization_id], one);
    expect(as_of).toBe(isoTime(asOfMs));
    expect(Object.keys(cohorts).length).toBeGreaterThan(0);
    expect(cohorts).toEqual(Object.fromEntries(plain.retention(one, within, days)));
  }
}

const figures = () =>
  stage.clickhouse.query(
    'SELECT is_whole, age, sum(installs) AS n FROM active_installs GROUP BY ALL HAVING n != 0 ORDER BY ALL',
  );

test('cells give what a plain calculation gives', expectExact);

test('a comparison without new records changes nothing', async () => {
  const before = await figures();
  await active.compare();
  expect(await figures()).toEqual(before);
  await expectExact();
});

test('late events, installs after their events, attribution learned later and re-engagement are in the next comparison', async () => {
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

test('an erased person is no active install any more, and still an install', async () => {
  const active_ids = new Set(records.events.map(({ install_id }) => install_id));
  const erased = new Set([...active_ids].filter((id) => id !== '').slice(0, 3));
  const none = new Set<string>();
  const ids = { device: none, install: erased, user: none, click: none };
  const counts = await erasePerson(stage.clickhouse, { organization_id: mine.organization_id, app_id: '' }, ids, ids);
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
])('the next comparison repairs %s', async (_, damage) => {
  await stage.clickhouse.command(damage, {}, { insert_deduplicate: 0 });
  await active.compare();
  await expectExact();
});

test('two comparisons at once are corrected by the next', async () => {
  await addRecords(makeDeviceRecords(random, mine, 500, range));
  await Promise.all([active.compare(), comparing().compare()]);
  await active.compare();
  await expectExact();
});

test('organizations with cells and others are added up', async () => {
  const others = makeDeviceRecords(random, small, 1_000, range);
  await storeDeviceRecords(stage.clickhouse, others, 'small');
  const organizations = [mine.organization_id, small.organization_id];
  const both = {
    ...records,
    installs: [...records.installs, ...others.installs],
    events: [...records.events, ...others.events],
  };
  const plain = new PlainDevices(both, asOfMs - 1);
  for (const one of cases.slice(0, 3)) {
    const { as_of, within, cohorts } = await answerTo(organizations, one);
    expect(as_of).toBe(isoTime(asOfMs));
    expect(cohorts).toEqual(Object.fromEntries(plain.retention(one, within, days)));
  }
});

test('what cells do not know is answered from records, with their as_of', async () => {
  for (const more of [
    { mode: 'unbounded' },
    { return_event: 'purchase' },
    { os: 'iOS' },
    { start: '2026-03-01T00:01:00Z' },
  ]) {
    const query = new URLSearchParams({ start: '2026-02-05', end: '2026-04-05', ...more });
    const { status, body } = await stage.get(memberOf(mine.organization_id), `/analytics/retention?${query}`);
    expect([status, body.as_of]).toEqual([200, isoTime(stage.asOfMs)]);
  }
});
