import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeRecords, makeTenant, pick, storeRecords } from '#api/testing/records.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { seededRandom } from '#common/seeded-random.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
const fromMs = nowMs - 5 * DAY_MS;
const mine = makeTenant(1, 2, fromMs);
const foreign = makeTenant(1, 2, fromMs);
const caller = memberOf(mine.organization_id);
const [app] = mine.apps;
const [foreignApp] = foreign.apps;
let stage: Stage;

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const [at, tenant] of [mine, foreign].entries()) {
    await storeTenant(stage.db, tenant);
    await storeRecords(stage.clickhouse, makeRecords(seededRandom(at), tenant, 2_000, fromMs, nowMs), `hostile-${at}`);
  }
});
afterAll(() => stage.stop());

const endpoints = [
  '/analytics/overview',
  '/analytics/timeseries',
  '/analytics/top-links',
  '/analytics/top-campaigns',
  '/analytics/breakdown',
  '/analytics/page',
  '/analytics/retention',
  '/analytics/ltv',
  '/analytics/funnel',
  '/analytics/export',
  `/links/${app?.links[0]?.id}/stats`,
];
const parameters =
  'start end interval timezone app_id link_id campaign platform country utm_source utm_medium referrer event_name tag by breakdowns currency cohort days mode return_event events from window_hours include_bots organization_id granularity group_by sort_by limit offset kind format cursor'.split(
    ' ',
  );
const attacks = [
  "' OR 1=1 --",
  "') UNION ALL SELECT * FROM clicks --",
  "x') OR organization_id != ('",
  '{organization_ids:Array(String)}',
  "\\') OR 1=1 --",
  "'; DROP TABLE clicks; --",
  "file('/etc/passwd')",
  "url('http://127.0.0.1:1/','CSV','x String')",
  '`; SELECT 1',
  '../../etc/passwd',
  '\t\n\r',
  '\\N',
  '\u0001',
  '\u2028\u{1F4A5}',
  '%00%27',
  '[]',
  "['a','b']",
  '-',
  '--',
  ',,,,',
  '-a,b',
  '9'.repeat(400),
  '-1',
  '1e309',
  'NaN',
  'null',
  '2026-02-31',
  '9999-12-31T23:59:60Z',
  '0000-00-00',
  '+05:30',
  'Europe/Berlin\0',
  'Etc/../UTC',
  'settings readonly=0',
  '(SELECT 1)',
  'toString(sleep(3))',
  '$(sleep 5)',
  '<script>alert(1)</script>',
];
/** Matches texts that can only come from ClickHouse's or Postgres's messages, or from file paths. */
const leak =
  /DB::Exception|ClickHouse|SELECT |organization_id IN|root:x:|stack|\bat \w+.*\.ts:|clicks_by|pg_|syntax error/i;

test('200 hostile parameter values read no file, reach no other tenant and reveal no SQL', {
  tags: ['slow'],
}, async () => {
  const random = seededRandom(99);
  const statuses = new Map<number, number>();
  const foreignIds = [
    foreign.organization_id,
    ...foreign.apps.flatMap((one) => [one.id, ...one.links.map((l) => l.id)]),
  ];
  for (let at = 0; at < 200; at++) {
    const endpoint = pick(random, endpoints);
    const name = pick(random, parameters);
    const value = attacks[at % attacks.length] ?? '';
    const hint = `${endpoint}?${name}=${value}`;
    const reply = await stage.get(caller, `${endpoint}?${name}=${encodeURIComponent(value)}`);
    const text = await reply.text();
    statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
    expect([200, 400, 404], `${hint} ${text.slice(0, 300)}`).toContain(reply.status);
    // A rejection may name the parameter, but never contains the database's message.
    expect(leak.test(text), `${hint} ${text.slice(0, 300)}`).toBe(false);
    for (const id of foreignIds) expect(text.includes(id), hint).toBe(false);
  }
  const [count] = await stage.clickhouse.query<{ n: number }>('SELECT count() AS n FROM clicks');
  expect(count?.n).toBeGreaterThan(2_000);
  expect([...statuses.keys()].sort()).toEqual([200, 400, 404]);
});

test('another organization, its apps and its links get 403; unknown ones get 404', async () => {
  const other = foreignApp?.links[0]?.id;
  const unknown = makeTenant(1, 1, fromMs).apps[0];
  for (const endpoint of endpoints.slice(0, -1)) {
    const by = endpoint.endsWith('/breakdown') ? 'by=platform&' : '';
    const status = async (query: string) => (await stage.get(caller, `${endpoint}?${by}${query}`)).status;
    expect(await status(`organization_id=${foreign.organization_id}`), endpoint).toBe(403);
    for (const id of [newId('org', 1), 'nonsense']) expect(await status(`organization_id=${id}`), endpoint).toBe(404);
    expect(await status(`app_id=${foreignApp?.id}`), endpoint).toBe(403);
    expect(await status(`app_id=-${foreignApp?.id}`), endpoint).toBe(403);
    expect(await status(`app_id=${app?.id},${foreignApp?.id}`), endpoint).toBe(403);
    expect(await status(`link_id=${other}`), endpoint).toBe(403);
    expect(await status(`link_id=${unknown?.links[0]?.id}`), endpoint).toBe(404);
    expect(await status(`app_id=${unknown?.id}`), endpoint).toBe(404);
    expect(await status('app_id=nonsense'), endpoint).toBe(404);
  }
  expect((await stage.get(caller, `/links/${other}/stats`)).status).toBe(403);
  expect((await stage.get(caller, `/links/${unknown?.links[0]?.id}/stats`)).status).toBe(404);
  expect((await stage.get(caller, '/links/nonsense/stats')).status).toBe(404);
});

test('GET /trust sums the audits, and counts only the caller’s own rejected records', async () => {
  const hour = (back: number) => Math.floor(nowMs / HOUR_MS - back) * HOUR_MS;
  const audited = [
    [hour(30), { lost: 0, duplicated: 0, rollup_difference: 0 }],
    [hour(3), { lost: 2, duplicated: 1, rollup_difference: 0 }],
    [hour(2), { lost: 0, duplicated: 0, rollup_difference: 0 }],
    [hour(24 * 31), { lost: 9, duplicated: 9, rollup_difference: 9 }],
  ] as const;
  for (const [at, figures] of audited) {
    const sql = 'INSERT INTO hourly_audits (hour, owner, claimed_until, figures) VALUES ($1, $2, now(), $3)';
    await stage.db.execute(sql, [at, 'test', JSON.stringify(figures)]);
  }
  // An hour that is still being audited has no figures.
  await stage.db.execute("INSERT INTO hourly_audits (hour, owner, claimed_until) VALUES ($1, 'test', now())", [
    hour(1),
  ]);
  const letters = [mine, mine, foreign].map(({ organization_id }, at) => {
    const record = `{"v":1,"organization_id":"${organization_id}","note":"\\"organization_id\\":\\"${mine.organization_id}\\""}`;
    return `('event', 'bad_field', fromUnixTimestamp64Milli(${nowMs - at * HOUR_MS}), '${record}')`;
  });
  await stage.clickhouse.command(`INSERT INTO dead_letters (kind, reason, time, record) VALUES ${letters.join()}`);
  const { status, body } = await stage.get(caller, '/trust');
  expect([status, body.audit]).toEqual([
    200,
    {
      ...{ lost: 2, duplicated: 1, rollup_difference: 0, hours: 3, hours_with_faults: 1 },
      audited_to: new Date(hour(1)).toISOString(),
      days: [
        { date: '2026-04-09', hours: 1, faults: 0 },
        { date: '2026-04-10', hours: 2, faults: 3 },
      ],
    },
  ]);
  const last_at = new Date(nowMs).toISOString();
  expect(body.refused).toEqual({
    records: 2,
    reasons: [{ kind: 'event', reason: 'bad_field', records: 2, last_at }],
  });
  expect(body.lag_seconds).toBeGreaterThanOrEqual(0);
  expect((await stage.get(memberOf(foreign.organization_id), '/trust')).body.refused.records).toBe(1);
  expect((await stage.get(memberOf(), '/trust')).body.refused).toEqual({ records: 0, reasons: [] });
});

test('a caller without an organization gets empty statistics', async () => {
  const { body, status } = await stage.get(memberOf(), '/analytics/overview?interval=all');
  expect([status, body.totals.clicks, body.totals.events]).toEqual([200, 0, 0]);
});

test('the URLs of top links have the scheme and port of created links', async () => {
  const { body } = await stage.get(caller, '/analytics/top-links?interval=all');
  const shown = body.data.filter((one: { url: string | null }) => one.url !== null);
  expect(shown.length).toBeGreaterThan(0);
  for (const { url, short_code } of shown) expect(url).toMatch(new RegExp(`^http://[^/]+:8080/${short_code}$`));
});

test('a deleted link keeps its figures and is marked as deleted', async () => {
  const link = app?.links[1];
  await stage.db.execute('UPDATE links SET deleted_at = now() WHERE id = $1', [link?.id]);
  const { body } = await stage.get(caller, '/analytics/top-links?interval=7d');
  const row = body.data.find((one: { link_id: string }) => one.link_id === link?.id);
  expect(row.deleted).toBe(true);
  expect(row.clicks).toBeGreaterThan(0);
  expect(body.data.filter((one: { deleted: boolean }) => one.deleted).length).toBe(1);
  expect((await stage.get(caller, `/links/${link?.id}/stats?interval=7d`)).body.totals.clicks).toBe(row.clicks);
  expect((await stage.get(caller, `/analytics/overview?link_id=${link?.id}&interval=7d`)).body.totals.clicks).toBe(
    row.clicks,
  );
});

test.each([
  ['start=2026-01-01&end=2025-01-01', 'end'],
  ['end=2000-01-10', 'end'],
  ['start=2099-01-01', 'start'],
  ['start=yesterday', 'start'],
  ['start=2026-02-30', 'start'],
  ['start=1999-01-01', 'start'],
  ['start=2026-01-01&end=2101-01-01', 'end'],
  ['interval=30d&start=2026-01-01', 'interval'],
  ['interval=31d', 'interval'],
  ['timezone=Mars/Olympus', 'timezone'],
  ['timezone=%2B05:30', 'timezone'],
  ['include_bots=perhaps', 'include_bots'],
  ['platform=ios,-android', 'platform'],
  ['platform=ios&platform=android', 'platform'],
  ['granularity=minute', 'granularity'],
  ['granularity=hour&interval=90d', 'granularity'],
  ['group_by=ip', 'group_by'],
  ['colour=red', 'colour'],
  [`campaign=${'a,'.repeat(100)}`, 'campaign'],
])('an invalid parameter gets 400 that names it: %s', async (query, field) => {
  const { status, body } = await stage.get(caller, `/analytics/timeseries?${query}`);
  expect([status, body.error?.code, body.error?.details?.field]).toEqual([400, 'VALIDATION_ERROR', field]);
});

test('if the end is a date without a time, it includes that day', async () => {
  const { body } = await stage.get(
    caller,
    '/analytics/overview?start=2026-04-08&end=2026-04-09&timezone=Asia/Kathmandu',
  );
  expect([body.start, body.end]).toEqual(['2026-04-07T18:15:00.000Z', '2026-04-09T18:15:00.000Z']);
  expect([body.previous.start, body.previous.end]).toEqual(['2026-04-05T18:15:00.000Z', '2026-04-07T18:15:00.000Z']);
});
