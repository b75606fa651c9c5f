/** Compares retention, revenue by age and funnels with a straightforward calculation over the same records. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeDeviceRecords, storeDeviceRecords } from '#api/testing/device-records.ts';
import {
  type FunnelCase,
  isInstall,
  type LtvCase,
  PlainDevices,
  type RetentionCase,
  zone,
} from '#api/testing/plain-devices.ts';
import { makeTenant, type Tenant } from '#api/testing/records.ts';
import { isoTime } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { systemTime } from '#common/time.ts';
import { ActiveInstalls } from '#ingest/active-installs.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
/** Cells are complete up to a whole quarter of an hour. */
const quarterMs = Date.parse('2026-04-10T12:30:00.000Z');
const range: readonly [number, number] = [nowMs - 70 * DAY_MS, nowMs - 1_500];
const mine = makeTenant(2, 4, nowMs);
const foreign = makeTenant(1, 2, nowMs);
const random = seededRandom(31);
const plain = new PlainDevices(makeDeviceRecords(random, mine, 6_000, range), range[1]);
const asked = { start: '2026-02-05', end: '2026-04-05', timezone: zone.name };

let stage: Stage;
beforeAll(async () => {
  // On a busy machine, a million records take longer than the limit for dashboard queries.
  stage = await startStage(nowMs, undefined, { max_execution_time: 100 });
  for (const tenant of [mine, foreign]) await storeTenant(stage.db, tenant);
  await storeDeviceRecords(stage.clickhouse, plain.records, 'mine');
  await storeDeviceRecords(stage.clickhouse, makeDeviceRecords(random, foreign, 1_000, range), 'foreign');
});
afterAll(() => stage.stop());

async function answerTo(tenant: Tenant, path: string, parameters: Record<string, string | undefined>) {
  const given = Object.entries({ ...asked, ...parameters }).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(Object.fromEntries(given) as Record<string, string>);
  const { status, body } = await stage.get(memberOf(tenant.organization_id), `${path}?${query}`);
  expect(status, `${path} ${JSON.stringify(body)}`).toBe(200);
  const within: readonly [number, number] = [Date.parse(body.start), Date.parse(body.end)];
  return { body, within };
}

async function overviewOf(tenant: Tenant, country: string | undefined) {
  return (await answerTo(tenant, '/analytics/overview', { country })).body.totals;
}

interface CohortAnswer {
  start: string;
  group?: string | null;
  is_rest?: boolean;
  installs: number;
  days: { day: number; installs: number; retained: number; rate: number | null }[];
}

async function compareRetention(
  tenant: Tenant,
  plain: PlainDevices,
  one: RetentionCase,
  asOfMs = stage.asOfMs,
): Promise<void> {
  const days = [0, 1, 2, 7, 14, 30];
  const { cohort, mode, group_by, return_event, filter: country } = one;
  const own = { days: days.join(','), cohort, mode, group_by, return_event, country };
  const { body, within } = await answerTo(tenant, '/analytics/retention', own);
  expect(body.as_of).toBe(isoTime(asOfMs));
  const data: CohortAnswer[] = body.data;
  const got = data
    .filter((row) => row.installs > 0)
    .map((row) => [
      `${Date.parse(row.start)} ${row.group ?? ''}`,
      { installs: row.installs, days: row.days.map(({ installs, retained }) => [installs, retained]) },
    ]);
  expect(got.length).toBeGreaterThan(0);
  expect(Object.fromEntries(got)).toEqual(Object.fromEntries(plain.retention(one, within, days)));
  for (const { installs, retained, rate } of data.flatMap((row) => row.days))
    expect(rate).toBe(installs === 0 ? null : retained / installs);
  const { installs } = await overviewOf(tenant, country);
  expect(data.reduce((sum, row) => sum + row.installs, 0)).toBe(installs);
}

interface LtvAnswer {
  start: string;
  group?: string | null;
  is_rest?: boolean;
  days: {
    day: number;
    installs: number;
    revenue: { currency: string; amount: string }[];
    per_install: { currency: string; amount: string }[];
    roas: { currency: string; ratio: number }[] | null;
  }[];
}

async function compareLtv(tenant: Tenant, plain: PlainDevices, one: LtvCase, asOfMs = stage.asOfMs): Promise<void> {
  const days = [0, 1, 7, 30];
  const { body, within } = await answerTo(tenant, '/analytics/ltv', { ...one, days: days.join(',') });
  expect(body.as_of).toBe(isoTime(asOfMs));
  const data: LtvAnswer[] = body.data;
  const shown = new Set(data.filter((row) => !row.is_rest).map((row) => row.group ?? ''));
  const cells = plain.revenue(one, within, days, shown);
  let compared = 0;
  for (const row of data) {
    for (const { day, installs, revenue, per_install } of row.days) {
      const amounts = cells.get(`${Date.parse(row.start)} ${row.group ?? ''} ${day}`) ?? new Map<string, number>();
      const wanted = [...amounts].filter(([, amount]) => amount !== 0).sort(([a], [b]) => (a < b ? -1 : 1));
      expect(revenue).toEqual(wanted.map(([currency, amount]) => ({ currency, amount: String(amount / 1000) })));
      for (const [at, [, amount]] of wanted.entries())
        expect(Number(per_install[at]?.amount)).toBeCloseTo(amount / 1000 / installs, 6);
      compared += wanted.length;
    }
  }
  expect(compared).toBeGreaterThan(10);
}

test('revenue is converted at the uploaded rates, which the answer lists, and costs give the return on it', async () => {
  const [spring, other] = ['spring', 'summer'];
  await stage.db.execute(
    `INSERT INTO exchange_rates (day, currency, rate) VALUES
     ('2026-03-20', 'EUR', 1), ('2026-03-20', 'USD', 0.9), ('2026-04-01', 'USD', 0.8125), ('2026-04-06', 'USD', 7), ('2026-02-20', 'JPY', 0.006)
     ON CONFLICT DO NOTHING`,
  );
  await stage.db.execute(
    `INSERT INTO campaign_costs (organization_id, day, campaign, currency, amount, updated_at) VALUES
     ($1, '2026-02-05', 'spring', 'EUR', 100.5, now()), ($1, '2026-03-20', 'spring', 'USD', 10, now()),
     ($1, '2026-04-05', 'spring', 'EUR', 1, now()), ($1, '2026-04-06', 'spring', 'EUR', 1000, now()),
     ($1, '2026-02-04', 'spring', 'EUR', 1000, now()), ($1, '2026-03-01', 'unknown', 'EUR', 7, now()),
     ($2, '2026-03-01', 'spring', 'EUR', 1000, now()) ON CONFLICT DO NOTHING`,
    [mine.organization_id, foreign.organization_id],
  );
  const parameters = { cohort: 'all', group_by: 'campaign', days: '1,3', currency: 'EUR' };
  const { body, within } = await answerTo(mine, '/analytics/ltv', parameters);
  const data: (LtvAnswer & { cost: object[] })[] = body.data;
  expect(body.conversion).toEqual({
    currency: 'EUR',
    rates: [{ currency: 'USD', day: '2026-04-01', rate: '0.8125' }],
    missing: ['JPY'],
  });
  const cells = plain.revenue({ cohort: 'all', group_by: 'campaign' }, within, [1, 3], new Set([spring, other]));
  const row = data.find(({ group }) => group === spring);
  const amounts = cells.get(`${within[0]} ${spring} 1`);
  const euros = ((amounts?.get('EUR') ?? 0) + (amounts?.get('USD') ?? 0) * 0.8125) / 1000;
  expect(row?.cost).toEqual([{ currency: 'EUR', amount: '109.625' }]);
  expect(Number(row?.days[0]?.revenue.find(({ currency }) => currency === 'EUR')?.amount)).toBeCloseTo(euros, 6);
  expect(row?.days[0]?.revenue.map(({ currency }) => currency)).toEqual(['EUR', 'JPY']);
  expect(row?.days[0]?.roas).toEqual([{ currency: 'EUR', ratio: expect.closeTo(euros / 109.625, 5) }]);
  // A campaign with costs and without installs.
  expect(data.find(({ group }) => group === 'unknown')).toMatchObject({ installs: 0, cost: [{ amount: '7' }] });
  const whole = (await answerTo(mine, '/analytics/ltv', { cohort: 'all', days: '1' })).body.data[0];
  expect(whole.cost).toEqual([
    { currency: 'EUR', amount: '108.5' },
    { currency: 'USD', amount: '10' },
  ]);
  for (const narrowed of [{ country: 'DE' }, { group_by: 'country' }])
    expect((await answerTo(mine, '/analytics/ltv', { cohort: 'all', ...narrowed })).body.data[0].cost).toBeNull();
});

test('every figure with revenue is converted in the same way', async () => {
  await stage.db.execute(
    "INSERT INTO exchange_rates (day, currency, rate) VALUES ('2026-03-20', 'EUR', 1), ('2026-04-01', 'USD', 0.8125) ON CONFLICT DO NOTHING",
  );
  const revenue = async (path: string, of: (body: never) => { currency: string; amount: string }[], more: object) => {
    const { body } = await answerTo(mine, path, { currency: 'EUR', ...more });
    expect(body.conversion.currency).toBe('EUR');
    return of(body as never).reduce((sum, { currency, amount }) => sum + (currency === 'EUR' ? Number(amount) : 0), 0);
  };
  type Rows = { data: { revenue: { currency: string; amount: string }[] }[] };
  type Page = { totals: Rows['data'][0]; previous: object; timeseries: Rows['data']; breakdowns: Rows[] };
  const rows = ({ data }: Rows) => data.flatMap((row) => row.revenue);
  const wanted = await revenue('/analytics/overview', (body: Page) => body.totals.revenue, {});
  // There is no rate of a day in the future.
  expect(
    await revenue('/analytics/overview', (body: Page) => body.totals.revenue, { end: '2026-12-31' }),
  ).toBeGreaterThan(0);
  const plainAmounts = (await answerTo(mine, '/analytics/overview', {})).body.totals.revenue;
  const amountIn = (code: string) =>
    Number(plainAmounts.find(({ currency }: { currency: string }) => currency === code)?.amount);
  expect(wanted).toBeCloseTo(amountIn('EUR') + amountIn('USD') * 0.8125, 6);
  const found = [
    await revenue('/analytics/timeseries', rows, {}),
    await revenue('/analytics/timeseries', rows, { group_by: 'country' }),
    await revenue('/analytics/breakdown', rows, { by: 'campaign' }),
    await revenue('/analytics/page', (body: Page) => body.totals.revenue, { previous: 'true' }),
    await revenue('/analytics/page', (body: Page) => body.totals.revenue, {}),
    await revenue('/analytics/page', (body: Page) => rows({ data: body.timeseries }), {}),
    await revenue('/analytics/page', (body: Page) => rows(body.breakdowns[0] as Rows), { breakdowns: 'platform' }),
  ];
  for (const sum of found) expect(sum).toBeCloseTo(wanted, 6);
  const caller = memberOf(mine.organization_id);
  for (const [currency, field] of [
    ['GBP', 'currency'],
    ['eur', 'currency'],
  ]) {
    const { status, body } = await stage.get(caller, `/analytics/overview?currency=${currency}`);
    expect([status, body.error?.details?.field]).toEqual([400, field]);
  }
});

interface StepAnswer {
  count: number;
}

async function compareFunnel(tenant: Tenant, plain: PlainDevices, one: FunnelCase): Promise<void> {
  const { from, events, hours, group_by, filter: country } = one;
  const own = { from, events: events.join(','), window_hours: String(hours), group_by, country };
  const { body, within } = await answerTo(tenant, '/analytics/funnel', own);
  const countsIn = (steps: StepAnswer[]) => steps.map(({ count }) => count);
  const { group_by: _, ...whole } = one;
  expect(countsIn(body.steps)).toEqual(plain.funnel(whole, within).get(''));
  expect(body.steps.at(-1).count).toBeGreaterThan(0);
  const groups: { group: string | null; steps: StepAnswer[] }[] = body.groups;
  if (group_by) {
    expect(new Map(groups.map((row) => [row.group ?? '', countsIn(row.steps)]))).toEqual(plain.funnel(one, within));
  }
  const { clicks, installs } = await overviewOf(tenant, country);
  expect(body.steps[0].count).toBe(from === 'click' ? clicks : installs);
}

const retentionCases: readonly RetentionCase[] = [
  { cohort: 'week', mode: 'on_day' },
  { cohort: 'day', mode: 'unbounded', filter: 'DE' },
  { cohort: 'month', mode: 'on_day', group_by: 'campaign' },
  { cohort: 'all', mode: 'unbounded', group_by: 'link_id' },
  { cohort: 'week', mode: 'unbounded', return_event: 'purchase' },
  { cohort: 'all', mode: 'on_day', return_event: "o'brien" },
];
const ltvCases: readonly LtvCase[] = [{ cohort: 'week' }, { cohort: 'all', group_by: 'country' }];
const funnelCases: readonly FunnelCase[] = [
  { from: 'click', events: ['opened', 'purchase'], hours: 24 * 30 },
  { from: 'click', events: ['purchase', 'purchase', "o'brien"], hours: 24 * 60, group_by: 'campaign' },
  { from: 'click', events: [], hours: 1, filter: 'DE' },
  { from: 'install', events: ['signed up', 'opened'], hours: 24 * 14, group_by: 'app_id' },
  { from: 'install', events: ['opened'], hours: 24, filter: 'FR' },
  { from: 'install', events: ['opened', 'purchase', 'opened', 'opened'], hours: 24 * 60 },
];

test.each(retentionCases)(
  'retention matches a straightforward calculation, with the installs of the overview: %o',
  (one) => compareRetention(mine, plain, one),
);

test.each(ltvCases)('revenue by age matches a straightforward calculation: %o', (one) => compareLtv(mine, plain, one));

test.each(funnelCases)(
  'a funnel matches a straightforward calculation, and begins with the figure of the overview: %o',
  (one) => compareFunnel(mine, plain, one),
);

test('one event is one step of a funnel, also when its name comes again after another at the same time', async () => {
  const tenant = makeTenant(1, 1, nowMs);
  await storeTenant(stage.db, tenant);
  const { id: app_id, links } = tenant.apps[0] ?? { id: '', links: [] };
  const time = nowMs - 10 * DAY_MS;
  const event = { app_id, install_id: 'once', currency: '', amount: 0, isLearned: false, time: time + 1 };
  const place = { app_id, link_id: links[0]?.id ?? '', campaign: '', country: 'DE', trigger: 'install' };
  const records = {
    organization_id: tenant.organization_id,
    clicks: [],
    installs: [{ ...place, click_id: '', install_id: 'once', time }],
    events: [
      { ...event, name: 'opened' },
      { ...event, name: 'purchase' },
    ],
  };
  await storeDeviceRecords(stage.clickhouse, records, 'one-step');
  const events = 'opened,purchase,opened,purchase';
  const { body } = await answerTo(tenant, '/analytics/funnel', { from: 'install', events });
  expect(body.steps.map(({ count }: StepAnswer) => count)).toEqual([1, 1, 1, 0, 0]);
});

test('for a click with several installs, the funnel continues with the first one after it', async () => {
  const tenant = makeTenant(1, 1, nowMs);
  await storeTenant(stage.db, tenant);
  const { id: app_id, links } = tenant.apps[0] ?? { id: '', links: [] };
  const clicked = nowMs - 10 * DAY_MS;
  const place = { app_id, link_id: links[0]?.id ?? '', campaign: '', country: 'DE', trigger: 'install' };
  const made = (install_id: string, time: number) => ({ ...place, click_id: 'several', install_id, time });
  const event = { app_id, name: 'opened', currency: '', amount: 0, isLearned: false };
  const records = {
    organization_id: tenant.organization_id,
    clicks: [0, 1].map((no) => ({ ...place, click_id: ['several', 'one'][no] ?? '', time: clicked, is_bot: false })),
    installs: [
      made('before', clicked - 1),
      made('third', clicked + 3 * DAY_MS),
      made('first', clicked + DAY_MS),
      { ...made('only', clicked), click_id: 'one' },
    ],
    // Events of other installs do not count.
    events: [
      { ...event, install_id: 'before', time: clicked + 1 },
      { ...event, install_id: 'third', time: clicked + 4 * DAY_MS },
      { ...event, install_id: 'first', time: clicked + 2 * DAY_MS, name: 'purchase' },
      { ...event, install_id: 'only', time: clicked },
    ],
  };
  await storeDeviceRecords(stage.clickhouse, records, 'several');
  const several = new PlainDevices(records, range[1]);
  const days = { hours: 24 * 7, from: 'click' } as const;
  for (const events of [['opened'], ['purchase']]) await compareFunnel(tenant, several, { ...days, events });
});

test.each([{ from: 'click' }, { from: 'click', events: 'opened' }, { from: 'install', events: 'opened' }])(
  'in a funnel by tag, an entrance counts for each tag of its link, at every step: %o',
  async (funnel) => {
    const tenant = makeTenant(1, 2, nowMs);
    await storeTenant(stage.db, tenant);
    const { id: app_id, links } = tenant.apps[0] ?? { id: '', links: [] };
    const tags = 'UPDATE links SET tags = $2 WHERE id = $1';
    for (const [at, names] of [
      ['a', 'b'],
      ['b', 'c'],
    ].entries())
      await stage.db.execute(tags, [links[at]?.id, names]);
    const time = nowMs - 10 * DAY_MS;
    const of = (at: number) => ({ app_id, link_id: links[at]?.id ?? '', campaign: '', country: 'DE', time });
    const ids = (at: number) => ({ click_id: `tagged-${at}`, install_id: `tagged-${at}` });
    const records = {
      organization_id: tenant.organization_id,
      clicks: [0, 1].map((at) => ({ ...of(at), click_id: ids(at).click_id, trigger: 'link', is_bot: false })),
      installs: [0, 1].map((at) => ({ ...of(at), ...ids(at), trigger: 'install' })),
      events: [0, 1].map((at) => ({
        ...{ app_id, install_id: ids(at).install_id, name: 'opened', currency: '', amount: 0 },
        ...{ time, isLearned: false },
      })),
    };
    await storeDeviceRecords(stage.clickhouse, records, `tagged ${tenant.organization_id}`);
    const { body } = await answerTo(tenant, '/analytics/funnel', { ...funnel, group_by: 'tag' });
    const counts = body.groups.map(({ group, steps }: { group: string; steps: StepAnswer[] }) => [
      group,
      ...steps.map(({ count }) => count),
    ]);
    const steps = (n: number) => body.steps.map(() => n);
    expect(counts).toEqual([
      ['b', ...steps(2)],
      ['a', ...steps(1)],
      ['c', ...steps(1)],
    ]);
  },
);

test('all of these figures are exact over a million records', { tags: ['slow'], timeout: 600_000 }, async () => {
  const tenant = makeTenant(2, 4, nowMs);
  await storeTenant(stage.db, tenant);
  const many = new PlainDevices(makeDeviceRecords(seededRandom(32), tenant, 1_000_000, range), range[1]);
  await storeDeviceRecords(stage.clickhouse, many.records, 'many');
  for (const one of retentionCases) await compareRetention(tenant, many, one);
  for (const one of ltvCases) await compareLtv(tenant, many, one);
  for (const one of funnelCases) await compareFunnel(tenant, many, one);
  const active = new ActiveInstalls({
    clickhouse: stage.clickhouse,
    asOf: async () => stage.asOfMs,
    unfinished: async () => [],
    isFirst: () => true,
    time: systemTime,
    log: () => undefined,
  });
  await active.compare();
  const fromCells = new PlainDevices(many.records, quarterMs - 1);
  for (const one of retentionCases.filter(({ mode, return_event }) => mode === 'on_day' && !return_event))
    await compareRetention(tenant, fromCells, one, quarterMs);
  for (const one of ltvCases) await compareLtv(tenant, fromCells, one, quarterMs);
});

test('cohorts have the ten largest groups, and the remaining ones as `other`', async () => {
  const { body } = await answerTo(mine, '/analytics/retention', { cohort: 'all', group_by: 'country', days: '1' });
  const within = plain.records.installs.filter(
    (one) => isInstall(one) && one.time >= Date.parse(body.start) && one.time < Date.parse(body.end),
  );
  expect(body.data.length).toBe(11);
  expect(body.data[10]).toMatchObject({ group: 'other', is_rest: true });
  expect(body.data.reduce((sum: number, row: CohortAnswer) => sum + row.installs, 0)).toBe(within.length);
});

test.each(['/analytics/retention', '/analytics/ltv', '/analytics/funnel'])(
  '%s shows no records of another organization',
  async (path) => {
    const caller = memberOf(mine.organization_id);
    expect((await stage.get(caller, `${path}?organization_id=${foreign.organization_id}`)).status).toBe(403);
    expect((await stage.get(caller, `${path}?app_id=${foreign.apps[0]?.id}`)).status).toBe(403);
    const { body } = await stage.get(memberOf(), `${path}?interval=90d`);
    expect(path.endsWith('funnel') ? body.steps[0].count : body.data[0].installs).toBe(0);
  },
);

test.each([
  ['/analytics/retention?days=1,x', 'days'],
  ['/analytics/retention?days=731', 'days'],
  [`/analytics/retention?days=${'1,'.repeat(32)}1`, 'days'],
  ['/analytics/retention?cohort=year', 'cohort'],
  ['/analytics/retention?cohort=day&start=2020-01-01&end=2026-01-01', 'cohort'],
  ['/analytics/retention?return_event=-a', 'return_event'],
  [`/analytics/funnel?events=${'a,'.repeat(8)}a`, 'events'],
  ['/analytics/funnel?events=a,,b', 'events'],
  ['/analytics/funnel?window_hours=0', 'window_hours'],
])('%s gets 400 that names the parameter', async (path, field) => {
  const { status, body } = await stage.get(memberOf(mine.organization_id), path);
  expect([status, body.error?.details?.field]).toEqual([400, field]);
});
