import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeRecords, makeTenant, plainFigures, storeRecords, type TestRecord } from '#api/testing/records.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { testCostlyCases } from '#testing/costly-cases.ts';

const nowMs = Date.parse('2026-04-10T12:00:00Z');
const mine = makeTenant(1, 4, nowMs);
const other = makeTenant(1, 4, nowMs);
const caller = memberOf(mine.organization_id);
const random = seededRandom(7);
const first = makeRecords(random, mine, 4_000, nowMs - 20 * DAY_MS, nowMs);
const paths = [
  '/analytics/top-links?interval=30d',
  '/analytics/top-links?interval=24h&timezone=Asia/Kolkata',
  '/analytics/top-campaigns?interval=30d',
  '/analytics/top-campaigns?interval=7d&include_bots=true',
  ...(mine.apps[0]?.links ?? []).flatMap(({ id }) => [
    `/links/${id}/stats?interval=30d`,
    `/links/${id}/stats?interval=24h`,
  ]),
];

let stage: Stage;
let batch = 0;
const store = (records: readonly TestRecord[]) =>
  storeRecords(
    stage.clickhouse,
    records.map((record, idx) => ({ ...record, idx })),
    `kept${batch++}`,
  );

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, other]) await storeTenant(stage.db, tenant);
  await store(first);
});
afterEach(() => void vi.restoreAllMocks());
afterAll(() => stage.stop());

/** The same query, sent to an API with an empty cache. */
async function freshly(path: string): Promise<unknown> {
  return (await stage.again()(caller, path)).body;
}

testCostlyCases(
  paths,
  4,
  '%s returns the same with and without a cache, before and after new records',
  async (path) => {
    expect((await stage.get(caller, path)).body).toEqual(await freshly(path));
    expect((await stage.get(caller, path)).body).toEqual(await freshly(path));
    await store(makeRecords(random, mine, 300, nowMs - 20 * DAY_MS, nowMs));
    // Twice: a figure with a changed count is queried together with the count; one with a stable count waits for it.
    for (let round = 0; round < 2; round++) expect((await stage.get(caller, path)).body).toEqual(await freshly(path));
  },
);

test('records of another tenant neither invalidate the cache nor become visible', async () => {
  const before = await Promise.all(paths.map((path) => stage.get(caller, path)));
  const foreign = makeRecords(random, other, 500, nowMs - 20 * DAY_MS, nowMs);
  await store(foreign);
  const after = await Promise.all(paths.map((path) => stage.get(caller, path)));
  expect(after.map(({ body }) => body)).toEqual(before.map(({ body }) => body));
  const theirs = await stage.get(memberOf(other.organization_id), '/analytics/top-links?interval=30d');
  const clicks = theirs.body.data.reduce((sum: number, row: { clicks: number }) => sum + row.clicks, 0);
  expect(clicks).toBe(plainFigures(foreign).clicks);
});

test.each([
  ['/analytics/top-links?interval=30d', 3, 1],
  ['/analytics/top-campaigns?interval=30d', 4, 1],
])('%s, when repeated, queries only the order', async (path, atFirst, thereafter) => {
  const query = vi.spyOn(ClickHouse.prototype, 'query');
  const ask = stage.again();
  await ask(caller, path);
  expect(query).toHaveBeenCalledTimes(atFirst);
  query.mockClear();
  await ask(caller, path);
  expect(query).toHaveBeenCalledTimes(thereafter);
});

test('the breakdowns of a link are queried again only after a new click', async () => {
  const [link] = mine.apps[0]?.links ?? [];
  const path = `/links/${link?.id}/stats?interval=30d`;
  const query = vi.spyOn(ClickHouse.prototype, 'query');
  const breakdowns = () => query.mock.calls.filter(([sql]) => sql.includes('breakdown')).length;
  const ask = stage.again();
  for (let round = 0; round < 3; round++) await ask(caller, path);
  expect(breakdowns()).toBe(1);
  const [click] = first.filter((record) => record.link_id === link?.id && record.kind === 'clicks' && !record.is_bot);
  if (!click) throw new Error('the link has no click');
  await store([click]);
  await ask(caller, path);
  expect(breakdowns()).toBe(2);
});
