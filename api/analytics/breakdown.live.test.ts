import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import {
  makeRecords,
  makeTenant,
  type PlainFigures,
  pick,
  plainFigures,
  storeRecords,
  type TestRecord,
  valueIn,
} from '#api/testing/records.ts';
import { filterColumns } from '#clickhouse/queries/scope.ts';
import { DAY_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
const fromMs = nowMs - 20 * DAY_MS;
const mine = makeTenant(2, 5, fromMs);
const foreign = makeTenant(1, 3, fromMs);
const random = seededRandom(22);
const records = makeRecords(random, mine, 9_000, fromMs, nowMs);
const caller = memberOf(mine.organization_id);
const fields = filterColumns.filter((field) => field !== 'tag');
const range = 'start=2026-03-25&end=2026-04-05&timezone=Asia/Kolkata';
const within = records.filter(
  ({ time }) => time >= Date.parse('2026-03-24T18:30:00Z') && time < Date.parse('2026-04-05T18:30:00Z'),
);
const links = mine.apps.flatMap((app) => app.links.map(({ id }) => ({ id, app_id: app.id })));
const tags = new Map([
  [links[0]?.id, ['sale']],
  [links[1]?.id, ['sale', 'partner']],
  [links[2]?.id, ['partner']],
  [links[6]?.id, ['sale']],
]);
const tagsOf = (record: TestRecord) => tags.get(record.link_id) ?? [''];

let stage: Stage;
beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, foreign]) await storeTenant(stage.db, tenant);
  await storeRecords(stage.clickhouse, records, 'mine');
  await storeRecords(stage.clickhouse, makeRecords(random, foreign, 1_000, fromMs, nowMs), 'foreign');
  for (const [id, own] of tags) await stage.db.execute('UPDATE links SET tags = $2 WHERE id = $1', [id, own]);
  await stage.db.execute("UPDATE links SET tags = '{sale}' WHERE organization_id = $1", [foreign.organization_id]);
});
afterAll(() => stage.stop());

type Row = PlainFigures & { value: string | null; label: string | null };

function withoutUniques({ unique_clicks: _u, bot_clicks: _b, organic_installs: _o, ...rest }: PlainFigures): object {
  return rest;
}

function metricsOf({ value: _v, label: _l, ...figures }: Row): PlainFigures {
  return figures;
}

const isSomething = (f: PlainFigures) => f.clicks + f.installs + f.opens + f.events > 0;

/** Compares rows with a straightforward count, except for unique clicks, which are an estimate. */
function expectRows(rows: readonly Row[], groups: ReadonlyMap<string, readonly TestRecord[]>, hint: string): void {
  const wanted = [...groups].map(([value, its]) => ({ value, figures: plainFigures(its) }));
  const some = wanted.filter(({ figures }) => isSomething(figures));
  expect(rows.map(({ value }) => value ?? '').sort(), hint).toEqual(some.map(({ value }) => value).sort());
  for (const { value, figures } of some) {
    const row = rows.find((one) => (one.value ?? '') === value);
    expect(row && withoutUniques(metricsOf(row)), `${hint} ${value}`).toEqual(withoutUniques(figures));
    const uniques = row?.unique_clicks ?? 0;
    expect(Math.abs(uniques - figures.unique_clicks), `${hint} ${value}`).toBeLessThanOrEqual(
      figures.unique_clicks * 0.02,
    );
  }
}

function groupedBy(its: readonly TestRecord[], valuesOf: (record: TestRecord) => readonly string[]) {
  const groups = new Map<string, TestRecord[]>();
  for (const record of its) {
    for (const value of valuesOf(record)) {
      const group = groups.get(value);
      if (group === undefined) groups.set(value, [record]);
      else group.push(record);
    }
  }
  return groups;
}

test.each(fields)('the breakdown by %s matches a straightforward count, and adds up', async (by) => {
  const sortBy = ['', '&sort_by=events', '&sort_by=revenue', '&sort_by=event_conversion_rate'][by.length % 4];
  const { status, body } = await stage.get(caller, `/analytics/breakdown?${range}&by=${by}&limit=100${sortBy}`);
  expect(status, JSON.stringify(body)).toBe(200);
  const groups = groupedBy(within, (record) => [valueIn(record, by)]);
  expectRows(body.data, groups, by);
  expect(body.pagination.total).toBe(body.data.length);
  const totals = plainFigures(within);
  const sum = (name: 'clicks' | 'installs' | 'events') => body.data.reduce((n: number, row: Row) => n + row[name], 0);
  expect([sum('clicks'), sum('installs'), sum('events')]).toEqual([totals.clicks, totals.installs, totals.events]);
});

test('a link with several tags counts for each of them, and links without tags form one row', async () => {
  const { status, body } = await stage.get(caller, `/analytics/breakdown?${range}&by=tag`);
  expect(status, JSON.stringify(body)).toBe(200);
  expectRows(body.data, groupedBy(within, tagsOf), 'tag');
  const series = (await stage.get(caller, `/analytics/timeseries?${range}&group_by=tag&granularity=month`)).body.data;
  const sale = series.filter((row: { tag: string }) => row.tag === 'sale');
  expect(sale.reduce((n: number, row: Row) => n + row.clicks, 0)).toBe(
    plainFigures(within.filter((record) => tagsOf(record).includes('sale'))).clicks,
  );
});

test.each([
  ['sale', (its: string[]) => its.includes('sale')],
  ['sale,partner', (its: string[]) => its.includes('sale') || its.includes('partner')],
  ['-sale', (its: string[]) => !its.includes('sale')],
  ['', (its: string[]) => its.includes('')],
  ['-', (its: string[]) => !its.includes('')],
  ['unknown', () => false],
  ['-unknown', () => true],
])('a filter by tag selects the links that have it: "%s"', async (tag, isMeant) => {
  const { status, body } = await stage.get(caller, `/analytics/overview?${range}&tag=${tag}`);
  expect(status, JSON.stringify(body)).toBe(200);
  const wanted = plainFigures(within.filter((record) => isMeant(tagsOf(record))));
  expect([body.totals.clicks, body.totals.installs, body.totals.events, body.totals.revenue]).toEqual([
    wanted.clicks,
    wanted.installs,
    wanted.events,
    wanted.revenue,
  ]);
});

const samples = [
  { seed: 23, count: 8 },
  { seed: 24, count: 25 },
];
testCostlyCases(
  samples,
  1,
  '$count random filters over every field match a straightforward count; records without the field have no value',
  async ({ seed, count }) => {
    const random = seededRandom(seed);
    for (let at = 0; at < count; at++) {
      const query = new URLSearchParams(range);
      let rest: readonly TestRecord[] = within;
      for (let n = 0; n < 2; n++) {
        const field = pick(random, fields);
        if (query.has(field)) continue;
        const isId = field === 'app_id' || field === 'link_id';
        const known = [...new Set(within.map((record) => valueIn(record, field)))].filter((one) => !isId || one !== '');
        const values = new Set([pick(random, known), pick(random, known)]);
        const isExclusion = random() < 0.4;
        query.set(
          field,
          [...values].map((value) => `${isExclusion ? '-' : ''}${value.replaceAll(/[\\,]/g, '\\$&')}`).join(','),
        );
        rest = rest.filter((record) => values.has(valueIn(record, field)) !== isExclusion);
      }
      const hint = decodeURIComponent(query.toString());
      const { status, body } = await stage.get(caller, `/analytics/overview?${query}`);
      expect(status, `${hint} ${JSON.stringify(body)}`).toBe(200);
      const { bot_clicks: _b, organic_installs: _o, unique_clicks: _u, ...totals } = body.totals;
      expect(totals, hint).toEqual(withoutUniques(plainFigures(rest)));
    }
  },
);

test('a series grouped by a field adds up to the totals, even if only one kind of record has the field', async () => {
  const totals = plainFigures(within);
  for (const by of ['referrer', 'os', 'event_name', 'match_certainty', 'utm_term']) {
    const { body, status } = await stage.get(caller, `/analytics/timeseries?${range}&group_by=${by}&granularity=week`);
    expect(status, JSON.stringify(body)).toBe(200);
    const sum = (name: 'clicks' | 'events' | 'opens') =>
      body.data.reduce((n: number, row: PlainFigures) => n + row[name], 0);
    expect([sum('clicks'), sum('events'), sum('opens')], by).toEqual([totals.clicks, totals.events, totals.opens]);
  }
});

test('one page has the same figures as the requests that it replaces', async () => {
  const names = ['event_name', 'link_id', 'match_certainty', 'tag', 'browser'];
  const filter = `${range}&platform=ios,android`;
  const { status, body } = await stage.get(
    caller,
    `/analytics/page?${filter}&previous=true&granularity=day&breakdowns=${names.join(',')}`,
  );
  expect(status, JSON.stringify(body)).toBe(200);
  const overview = (await stage.get(caller, `/analytics/overview?${filter}`)).body;
  const series = (await stage.get(caller, `/analytics/timeseries?${filter}&granularity=day`)).body;
  expect([body.totals, body.previous, body.change]).toEqual([overview.totals, overview.previous, overview.change]);
  expect(body.timeseries).toEqual(series.data);
  for (const [at, by] of names.entries()) {
    const whole = (await stage.get(caller, `/analytics/breakdown?${filter}&by=${by}&limit=10`)).body;
    expect(body.breakdowns[at]).toEqual({ by, total: whole.pagination.total, data: whole.data });
  }
  expect(body.as_of).toBe(new Date(stage.asOfMs).toISOString());
  const bare = (await stage.get(caller, `/analytics/page?${filter}&breakdowns=`)).body;
  expect([bare.totals, bare.previous, bare.change, bare.breakdowns]).toEqual([overview.totals, null, null, []]);
});

test.each([
  ['/analytics/page?breakdowns=platform,ip', 'breakdowns'],
  [`/analytics/page?breakdowns=${fields.slice(0, 11).join(',')}`, 'breakdowns'],
  ['/analytics/breakdown', 'by'],
  ['/analytics/breakdown?by=ip', 'by'],
  ['/analytics/overview?tag=a,', 'tag'],
])('%s gets 400 that names the parameter', async (path, field) => {
  const { status, body } = await stage.get(caller, path);
  expect([status, body.error?.details?.field]).toEqual([400, field]);
});

test('apps and links are shown with their names, and none of another organization', async () => {
  const apps = (await stage.get(caller, `/analytics/breakdown?${range}&by=app_id`)).body.data;
  expect(apps.map((row: Row) => row.label)).toEqual(['App', 'App']);
  const shown = (await stage.get(caller, `/analytics/breakdown?${range}&by=link_id`)).body.data;
  expect(new Set(shown.map((row: Row) => row.label))).toEqual(new Set(['A link', null]));
  expect(shown.length).toBe(links.length + 1);
  const other = await stage.get(memberOf(foreign.organization_id), `/analytics/breakdown?${range}&by=tag`);
  expect(other.body.data.map((row: Row) => row.value).sort()).toEqual([null, 'sale'].sort());
});
