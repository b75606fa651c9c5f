import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import {
  campaigns,
  countries,
  makeRecords,
  makeTenant,
  media,
  type PlainFigures,
  pick,
  plainFigures,
  platforms,
  type Random,
  sources,
  storeRecords,
  type TestRecord,
} from '#api/testing/records.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
const fromMs = Date.parse('2026-02-01T00:00:00Z');
const mine = makeTenant(2, 7, fromMs);
const second = makeTenant(1, 3, fromMs);
const foreign = makeTenant(1, 3, fromMs);
const random = seededRandom(20_260_410);
const records = [mine, second, foreign].flatMap((tenant) => makeRecords(random, tenant, 12_000, fromMs, nowMs));
const caller = memberOf(mine.organization_id, second.organization_id);
const visible = records.filter((record) => record.organization_id !== foreign.organization_id);
const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu', 'Australia/Lord_Howe'];

let stage: Stage;
beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, second, foreign]) await storeTenant(stage.db, tenant);
  let batch = 0;
  for (let from = 0; from < records.length; from += 9_000) {
    await storeRecords(
      stage.clickhouse,
      records.slice(from, from + 9_000).map((r, at) => ({ ...r, idx: at })),
      `b${batch++}`,
    );
  }
});
afterAll(() => stage.stop());

interface Case {
  readonly query: URLSearchParams;
  readonly zone: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly includeBots: boolean;
  readonly records: readonly TestRecord[];
}

/** A random query and the records that it covers, selected individually. */
function randomCase(random: Random): Case {
  const query = new URLSearchParams();
  const zone = pick(random, zones);
  query.set('timezone', zone);
  const grain = pick(random, [1, 1_000, 900_000, HOUR_MS, DAY_MS, DAY_MS]);
  const round = (ms: number) => Math.floor(ms / grain) * grain;
  const span = pick(random, [2, 9, 30, 60]) * DAY_MS;
  const startMs = round(fromMs + random() * (nowMs - fromMs - DAY_MS));
  const endMs = Math.max(startMs + grain, round(Math.min(startMs + span * random(), nowMs)));
  query.set('start', new Date(startMs).toISOString());
  query.set('end', new Date(endMs).toISOString());
  const includeBots = random() < 0.3;
  if (includeBots) query.set('include_bots', 'true');
  let rest = visible.filter((record) => record.time >= startMs && record.time < endMs);
  const apps = [...mine.apps, ...second.apps];
  const choices = {
    app_id: apps.map((app) => app.id),
    link_id: apps.flatMap((app) => app.links.map((link) => link.id)),
    campaign: campaigns,
    platform: platforms,
    country: countries,
    utm_source: sources,
    utm_medium: media,
  } as const;
  for (const column of ['app_id', 'link_id', 'campaign', 'platform', 'country', 'utm_source', 'utm_medium'] as const) {
    if (random() > 0.2) continue;
    const values = new Set([pick<string>(random, choices[column]), pick<string>(random, choices[column])]);
    const isExclusion = random() < 0.4;
    query.set(
      column,
      [...values].map((value) => `${isExclusion ? '-' : ''}${value.replaceAll('\\', '\\\\')}`).join(','),
    );
    rest = rest.filter((record) => values.has(record[column]) !== isExclusion);
  }
  return { query, zone, startMs, endMs, includeBots, records: rest };
}

const localTimes = new Map(
  zones.map((timeZone) => [
    timeZone,
    new Intl.DateTimeFormat('en-CA', {
      timeZone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'longOffset',
    }),
  ]),
);

/** The local day, hour, week or month of an instant, computed independently of the code under test. */
function bucketName(ms: number, granularity: string, zone: string): string {
  const listed = localTimes.get(zone)?.formatToParts(ms) ?? [];
  const parts = Object.fromEntries(listed.map(({ type, value }) => [type, value]));
  const day = `${parts['year']}-${parts['month']}-${parts['day']}`;
  if (granularity === 'hour') return `${day} ${parts['hour']} ${parts['timeZoneName']}`;
  if (granularity === 'month') return day.slice(0, 7);
  if (granularity === 'day') return day;
  const noon = new Date(`${day}T12:00:00Z`);
  noon.setUTCDate(noon.getUTCDate() - ((noon.getUTCDay() + 6) % 7));
  return noon.toISOString().slice(0, 10);
}

function expectFigures(got: Partial<PlainFigures>, wanted: Partial<PlainFigures>, hint: string): void {
  const { unique_clicks: gotUniques = 0, ...exact } = got;
  const { unique_clicks: uniques = 0, ...wantedExact } = wanted;
  expect(exact, hint).toEqual(wantedExact);
  expect(Math.abs(gotUniques - uniques), hint).toBeLessThanOrEqual(Math.max(uniques * 0.02, 0));
}

function withoutTotals({ bot_clicks: _b, organic_installs: _o, ...metrics }: PlainFigures): Partial<PlainFigures> {
  return metrics;
}

function grouped(records: readonly TestRecord[], keyOf: (record: TestRecord) => string): Map<string, TestRecord[]> {
  const groups = new Map<string, TestRecord[]>();
  for (const record of records) {
    const key = keyOf(record);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [record]);
    else group.push(record);
  }
  return groups;
}

const isSomething = (f: PlainFigures) => f.clicks + f.installs + f.opens + f.events > 0;

/** A few random queries for `npm test`, more for `npm run test:all`. */
const samples = (few: number, many: number) => [
  { seed: 7, count: few },
  { seed: 8, count: many },
];
const several = '$count random queries: ';

testCostlyCases(
  samples(25, 80),
  1,
  `${several}the overview is exactly what a plain count over the raw records returns`,
  async ({ seed, count }) => {
    const random = seededRandom(seed);
    for (let at = 0; at < count; at++) {
      const one = randomCase(random);
      const hint = `#${at} ${decodeURIComponent(one.query.toString())}`;
      const reply = await stage.get(caller, `/analytics/overview?${one.query}`);
      expect(reply.status, `${hint} ${JSON.stringify(reply.body)}`).toBe(200);
      expect(reply.body.start).toBe(new Date(one.startMs).toISOString());
      expectFigures(reply.body.totals, plainFigures(one.records, one.includeBots), hint);
    }
  },
  120_000,
);

testCostlyCases(
  samples(10, 30),
  1,
  `${several}the time series has every bucket of its zone, and each is right`,
  async ({ seed, count }) => {
    const random = seededRandom(seed);
    for (let at = 0; at < count; at++) {
      const one = randomCase(random);
      const granularity = pick(random, ['hour', 'day', 'day', 'week', 'month']);
      one.query.set('granularity', granularity);
      const hint = `#${at} ${decodeURIComponent(one.query.toString())}`;
      const reply = await stage.get(caller, `/analytics/timeseries?${one.query}`);
      if ((one.endMs - one.startMs) / HOUR_MS > 1_499 && granularity === 'hour') {
        expect(reply.status, hint).toBe(400);
        continue;
      }
      expect(reply.status, `${hint} ${JSON.stringify(reply.body)}`).toBe(200);
      const groups = grouped(one.records, (record) => bucketName(record.time, granularity, one.zone));
      const names = new Set<string>();
      for (const { start, ...metrics } of reply.body.data) {
        const name = bucketName(Date.parse(start), granularity, one.zone);
        expect(names.has(name), `${hint} ${name}`).toBe(false);
        names.add(name);
        expectFigures(metrics, withoutTotals(plainFigures(groups.get(name) ?? [], one.includeBots)), `${hint} ${name}`);
        groups.delete(name);
      }
      expect([...groups.keys()], hint).toEqual([]);
    }
  },
  120_000,
);

test('a grouped series has the ten largest groups and the others as `other`, and adds up', async () => {
  for (const by of ['platform', 'country', 'campaign'] as const) {
    for (const zone of ['UTC', 'Asia/Kolkata']) {
      const query = `interval=30d&timezone=${zone}&group_by=${by}&granularity=day`;
      const { body, status } = await stage.get(caller, `/analytics/timeseries?${query}`);
      expect(status, JSON.stringify(body)).toBe(200);
      const within = visible.filter((r) => r.time >= Date.parse(body.start) && r.time < Date.parse(body.end));
      const groups = new Set(body.data.map((row: Record<string, unknown>) => row[by]));
      expect(groups.size).toBe(by === 'country' ? 11 : 5);
      expect(body.data.length).toBe(30 * groups.size);
      const sum = body.data.reduce((total: number, row: { clicks: number }) => total + row.clicks, 0);
      expect(sum).toBe(plainFigures(within).clicks);
      for (const name of groups) {
        if (name === 'other' && by !== 'platform') continue;
        const rows = body.data.filter((row: Record<string, unknown>) => row[by] === name);
        const plain = plainFigures(within.filter((record) => record[by] === (name ?? '')));
        expect(rows.reduce((n: number, row: { events: number }) => n + row.events, 0)).toBe(plain.events);
      }
    }
  }
});

testCostlyCases(
  samples(5, 15),
  1,
  `${several}overview, time series and all pages of links agree`,
  async ({ seed, count }) => {
    const random = seededRandom(seed);
    for (let at = 0; at < count; at++) {
      const one = randomCase(random);
      const hint = `#${at} ${decodeURIComponent(one.query.toString())}`;
      const { totals } = (await stage.get(caller, `/analytics/overview?${one.query}`)).body;
      const series = (await stage.get(caller, `/analytics/timeseries?${one.query}`)).body.data;
      const sortBy = pick(random, [
        'clicks',
        'unique_clicks',
        'installs',
        'reengagements',
        'events',
        'conversions',
        'conversion_rate',
        'revenue',
      ]);
      const rows: (PlainFigures & { link_id: string | null })[] = [];
      for (let offset = 0; ; offset += 5) {
        const query = `${one.query}&limit=5&offset=${offset}&sort_by=${sortBy}`;
        const { status, body } = await stage.get(caller, `/analytics/top-links?${query}`);
        expect(status, `${hint} ${JSON.stringify(body)}`).toBe(200);
        rows.push(...body.data);
        if (!body.pagination.has_more) {
          expect(body.pagination.total, hint).toBe(rows.length);
          break;
        }
      }
      const metrics = ['clicks', 'installs', 'reinstalls', 'opens', 'reengagements', 'events', 'conversions'] as const;
      for (const metric of metrics) {
        const sum = (of: PlainFigures[]) => of.reduce((total, row) => total + row[metric], 0);
        expect([sum(series), sum(rows)], `${hint} ${metric}`).toEqual([totals[metric], totals[metric]]);
      }
      for (const { currency, amount } of totals.revenue) {
        const sum = (of: PlainFigures[]) =>
          of
            .flatMap((row) => row.revenue)
            .reduce((n, r) => n + (r.currency === currency ? Math.round(Number(r.amount) * 1000) : 0), 0);
        const wanted = Math.round(Number(amount) * 1000);
        expect([sum(series), sum(rows)], `${hint} ${currency}`).toEqual([wanted, wanted]);
      }
      const perLink = [...grouped(one.records, (record) => record.link_id)]
        .map(([link_id, its]) => ({ link_id, ...plainFigures(its, one.includeBots) }))
        .filter(isSomething);
      expect(rows.length, hint).toBe(perLink.length);
      for (const wanted of perLink) {
        const { link_id, ...figures } = wanted;
        const row = rows.find((one) => (one.link_id ?? '') === link_id);
        expectFigures(metricsIn(row), withoutTotals(figures), `${hint} ${link_id}`);
      }
      if (sortBy !== 'revenue') {
        const values = rows.map((row) => Number(row[sortBy as 'clicks']));
        expect(values, hint).toEqual([...values].sort((a, b) => b - a));
      }
    }
  },
  120_000,
);

function metricsIn(row: Partial<PlainFigures> | undefined): Partial<PlainFigures> {
  const { clicks, unique_clicks, installs, attributed_installs, reinstalls, opens, reengagements } = row ?? {};
  const { events, conversions, conversion_rate, event_conversion_rate, revenue } = row ?? {};
  const opened = { installs, attributed_installs, reinstalls, opens, reengagements };
  return {
    ...{ clicks, unique_clicks, ...opened, events, conversions, conversion_rate, event_conversion_rate, revenue },
  } as Partial<PlainFigures>;
}

test('campaigns are ranked with the number of their links, and records without a campaign are omitted', async () => {
  const { body } = await stage.get(caller, '/analytics/top-campaigns?interval=30d&sort_by=events');
  const within = visible.filter((r) => r.time >= Date.parse('2026-03-12T00:00:00Z') && r.campaign !== '');
  const groups = grouped(within, (record) => record.campaign);
  expect(body.pagination.total).toBe(groups.size);
  for (const row of body.data) {
    const its = groups.get(row.campaign) ?? [];
    expectFigures(metricsIn(row), withoutTotals(plainFigures(its)), row.campaign);
    expect(row.links).toBe(new Set(its.filter((r) => !r.is_bot).map((r) => r.link_id)).size);
  }
});

test('the statistics of a link are its figures with their breakdowns', async () => {
  const link = mine.apps[0]?.links[0];
  if (!link) throw new Error('no link');
  const { body, status } = await stage.get(caller, `/links/${link.id}/stats?interval=30d&timezone=Europe/Berlin`);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body.start).toBe('2026-03-11T23:00:00.000Z');
  expect(body.end).toBe('2026-04-10T22:00:00.000Z');
  const its = records.filter((record) => record.link_id === link.id);
  const within = its.filter((r) => r.time >= Date.parse(body.start) && r.time < Date.parse(body.end));
  expectFigures(body.totals, plainFigures(within), 'totals');
  expect(body.timeseries.length).toBe(30);
  const people = within.filter((r) => r.kind === 'clicks' && !r.is_bot);
  for (const name of ['platform', 'country', 'browser', 'os', 'referrer']) {
    const rows: { clicks: number }[] = body[`by_${name}`];
    expect(rows.length).toBeLessThanOrEqual(11);
    expect(rows.reduce((n, row) => n + row.clicks, 0)).toBe(people.length);
  }
  for (const row of body.by_platform) {
    expect(row.clicks).toBe(people.filter((r) => r.platform === (row.platform ?? '')).length);
  }
  const last = its.filter((r) => r.kind === 'clicks' && !r.is_bot).reduce((ms, r) => Math.max(ms, r.time), 0);
  expect(body.last_clicked_at).toBe(new Date(last).toISOString());
  expect(body.as_of).toBe(new Date(stage.asOfMs).toISOString());
});

test('whole UTC days of a link add up to its totals, and its last click is found within the range, after it, and with any filter', async () => {
  const link = mine.apps[0]?.links[0];
  if (!link) throw new Error('no link');
  const its = records.filter((record) => record.link_id === link.id);
  const lastOf = (all: typeof its) =>
    all.filter((r) => r.kind === 'clicks' && !r.is_bot).reduce((ms, r) => Math.max(ms, r.time), 0);
  for (const range of ['interval=30d', 'start=2026-03-29&end=2026-03-31']) {
    const { body } = await stage.get(caller, `/links/${link.id}/stats?${range}&granularity=day`);
    const within = its.filter((r) => r.time >= Date.parse(body.start) && r.time < Date.parse(body.end));
    expectFigures(body.totals, plainFigures(within), range);
    expect(body.last_clicked_at).toBe(new Date(lastOf(its)).toISOString());
  }
  const [some] = its.filter((r) => r.kind === 'clicks' && !r.is_bot && r.utm_medium !== '');
  const medium = some?.utm_medium ?? '';
  for (const range of ['interval=30d', 'start=2026-03-29&end=2026-03-31']) {
    const { body } = await stage.get(caller, `/links/${link.id}/stats?${range}&utm_medium=${medium}`);
    expect(body.last_clicked_at).toBe(new Date(lastOf(its.filter((r) => r.utm_medium === medium))).toISOString());
  }
});

test('a campaign named other is distinguished from the remainder row, and one with a comma can be filtered', async () => {
  const names = ['other', 'a,b', '-c', ...Array.from({ length: 12 }, (_, n) => `many${n}`)];
  const organization = newId('org', nowMs);
  await stage.clickhouse.command(
    `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, campaign, platform)
     SELECT concat('c', toString(number)), {organization:String}, 'app_1', 'lnk_1',
       toDateTime64('2019-05-05 01:00:00', 3, 'UTC'), arrayElement({names:Array(String)}, number % 15 + 1), 'ios' FROM numbers(15)`,
    { organization, names },
  );
  const get = (query: string) =>
    stage.get(memberOf(organization), `/analytics/timeseries?start=2019-05-05&end=2019-05-05&${query}`);
  const grouped = await get('group_by=campaign&granularity=day');
  const rest = grouped.body.data.filter((row: { is_rest?: boolean }) => row.is_rest === true);
  expect(rest).toMatchObject([{ campaign: 'other', clicks: 5 }]);
  const sum = async (filter: string) => {
    const { body } = await get(`granularity=day&campaign=${encodeURIComponent(filter)}`);
    return body.data.reduce((n: number, row: { clicks: number }) => n + row.clicks, 0);
  };
  expect([await sum('a\\,b'), await sum('\\-c'), await sum('other'), await sum('a\\,b,other')]).toEqual([1, 1, 1, 2]);
});

test('the previous period is counted too, and the change is the ratio between the two', async () => {
  const { body } = await stage.get(caller, '/analytics/overview?interval=7d&timezone=Europe/Berlin');
  expect([body.start, body.end]).toEqual(['2026-04-03T22:00:00.000Z', '2026-04-10T22:00:00.000Z']);
  // The clock changed on 29 March: the previous seven local days are not 168 hours.
  expect(body.previous.start).toBe('2026-03-27T23:00:00.000Z');
  // The week has not ended, so the previous one is counted up to the same local time, rounded to 15 minutes.
  const behindMs = Date.parse(body.previous.end) + 7 * DAY_MS - nowMs;
  expect(behindMs).toBeGreaterThanOrEqual(0);
  expect(behindMs).toBeLessThan(900_000);
  const { start, end, ...previous } = body.previous;
  const before = visible.filter((r) => r.time >= Date.parse(start) && r.time < Date.parse(end));
  expectFigures(previous, plainFigures(before), 'previous');
  expect(body.change.clicks).toBeCloseTo((body.totals.clicks - previous.clicks) / previous.clicks, 10);
  const usd = (of: PlainFigures) => Number(of.revenue.find((one) => one.currency === 'USD')?.amount);
  const change = body.change.revenue.find((one: { currency: string }) => one.currency === 'USD').ratio;
  expect(change).toBeCloseTo((usd(body.totals) - usd(previous)) / usd(previous), 6);
});

test('a running period has the same previous period, at whatever time of day it ends', async () => {
  const filters = [
    '',
    '&country=DE',
    '&utm_medium=email',
    '&link_id=-lnk_x'.replace('lnk_x', mine.apps[0]?.links[0]?.id ?? ''),
  ];
  for (const range of ['interval=30d', 'interval=7d', 'interval=24h', 'start=2026-04-10&end=2026-04-10']) {
    for (const filter of filters) {
      const { body } = await stage.get(caller, `/analytics/overview?${range}${filter}`);
      const { start, end, ...previous } = body.previous;
      const isWanted = (r: TestRecord) =>
        (filter !== filters[1] || r.country === 'DE') &&
        (filter !== filters[2] || r.utm_medium === 'email') &&
        (filter !== filters[3] || r.link_id !== mine.apps[0]?.links[0]?.id);
      const between = (from: string, to: string) =>
        visible.filter((r) => r.time >= Date.parse(from) && r.time < Date.parse(to) && isWanted(r));
      expectFigures(previous, plainFigures(between(start, end)), `${range}${filter} previous`);
      expectFigures(body.totals, plainFigures(between(body.start, body.end)), `${range}${filter}`);
    }
  }
});

test('`all` starts with the first record, of whatever kind', async () => {
  const { body } = await stage.get(caller, '/analytics/timeseries?interval=all&granularity=month');
  expect(body.start).toBe('2026-02-01T00:00:00.000Z');
  const sum = body.data.reduce((n: number, row: { events: number }) => n + row.events, 0);
  expect(sum).toBe(plainFigures(visible).events);
  expect((await stage.get(caller, '/analytics/overview?interval=all')).body.change.clicks).toBeNull();
});

test('a late event is counted in the bucket of the time when it happened', async () => {
  const path = '/analytics/timeseries?start=2026-02-10&end=2026-02-12&granularity=day&timezone=Asia/Kolkata';
  const before = (await stage.get(caller, path)).body.data;
  const [event] = visible.filter((record) => record.kind === 'events');
  if (!event) throw new Error('no event');
  const late = { ...event, time: Date.parse('2026-02-10T19:00:00Z'), currency: 'EUR', amount: 12_345, idx: 0 };
  await storeRecords(stage.clickhouse, [late], 'late');
  const after = (await stage.get(caller, path)).body.data;
  expect(
    after.map((row: { start: string; events: number }, at: number) => [row.start, row.events - before[at].events]),
  ).toEqual([
    ['2026-02-09T18:30:00.000Z', 0],
    ['2026-02-10T18:30:00.000Z', 1],
    ['2026-02-11T18:30:00.000Z', 0],
  ]);
});
