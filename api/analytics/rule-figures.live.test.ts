import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeRecords, makeTenant, storeRecords, type TestRecord } from '#api/testing/records.ts';
import { DAY_MS } from '#common/durations.ts';
import type { LinkRule } from '#common/links/link-rule.ts';
import { ruleIdOf } from '#common/links/rule-id.ts';
import { seededRandom } from '#common/seeded-random.ts';

const nowMs = Date.parse('2026-04-10T12:34:56.789Z');
const mine = makeTenant(1, 2, nowMs - 5 * DAY_MS);
const foreign = makeTenant(1, 1, nowMs - 5 * DAY_MS);
const caller = memberOf(mine.organization_id);
const [link = '', other = ''] = mine.apps[0]?.links.map(({ id }) => id) ?? [];
const [inGermany, weekend] = [{ country: ['DE'] }, { weekdays: ['sat'], timezone: 'UTC' }] as [LinkRule, LinkRule];
const [a, b, c] = ['https://a.example/', 'https://b.example/', 'https://c.example/'] as const;
const ids = [ruleIdOf(link, inGermany, a), ruleIdOf(link, weekend, b), ruleIdOf(link, weekend, c)] as const;
const counts = [5, 4, 3];
let stage: Stage;

async function setRules(rules: readonly LinkRule[]): Promise<void> {
  await stage.db.execute('UPDATE links SET rules = $2 WHERE id = $1', [link, JSON.stringify(rules)]);
}

async function rows(query: string) {
  const { status, body } = await stage.get(caller, `/analytics/breakdown?start=2026-04-01&by=rule&${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data.map((row: { value: string | null; label: string | null; clicks: number }) => [
    ...[row.value, row.label, row.clicks],
  ]);
}

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, foreign]) await storeTenant(stage.db, tenant);
  const [sample] = makeRecords(seededRandom(3), mine, 1, nowMs - DAY_MS, nowMs);
  if (sample === undefined) throw new Error('no record');
  const click = (idx: number, link_id: string, rule: string): TestRecord => ({
    ...{ ...sample, kind: 'clicks', is_bot: false, trigger: '' },
    ...{ link_id, idx, rule, visitor: idx },
  });
  const ruled = ids.flatMap((id, at) => Array.from({ length: counts[at] ?? 0 }, () => id));
  const clicks = [...ruled, '', ''].map((rule, idx) => click(idx, link, rule));
  // The first click of each rule and one without a rule led to an install, and each install to two events, one of which
  // was attributed later.
  const followers = [0, 5, 9, 12].flatMap((led_by, at) => {
    const led = { ...click(0, link, ''), led_by, time: nowMs - 3_600_000 };
    const paid = { is_conversion: true, currency: 'EUR', amount: 1_000 * (at + 1) };
    return [
      { ...led, kind: 'installs' as const, idx: 100 + at, trigger: 'install' },
      { ...led, kind: 'events' as const, idx: 201 + 4 * at, ...paid },
      { ...led, kind: 'events' as const, idx: 202 + 4 * at, is_conversion: false, currency: '', amount: 0 },
    ];
  });
  await storeRecords(stage.clickhouse, [...clicks, ...followers, click(90, other, '')], 'mine');
  // This install names a click of another organization.
  await stage.clickhouse.command(
    "INSERT INTO installs (organization_id, app_id, link_id, click_id, time, install_id) SELECT {org:String}, {app:String}, '', 'mine-0', {time:DateTime64(3)}, 'i'",
    {
      org: foreign.organization_id,
      app: foreign.apps[0]?.id ?? '',
      time: new Date(nowMs - 3_600_000).toISOString().slice(0, -1).replace('T', ' '),
    },
  );
});
afterAll(() => stage.stop());

test('clicks are counted by rule and variant, each labelled with its position among the rules of the link', async () => {
  const variants = [b, c].map((url) => ({ url, percent: 50 }));
  await setRules([
    { ...inGermany, url: a },
    { ...weekend, variants },
  ]);
  expect(await rows(`link_id=${link}`)).toEqual([
    [ids[0], 'Rule 1', 5],
    [ids[1], 'Rule 2, variant A', 4],
    [ids[2], 'Rule 2, variant B', 3],
    [null, null, 2],
  ]);
  expect(await rows(`link_id=${link}&rule=${ids[1]},${ids[2]}`)).toHaveLength(2);
  // For the whole organization, rules have no labels, because their links would have to be searched for.
  expect(await rows('')).toEqual([...ids.map((id, at) => [id, null, counts[at]]), [null, null, 3]]);
});

const figures = async (who: typeof caller, query: string) => {
  const { status, body } = await stage.get(who, `/analytics/breakdown?start=2026-04-01&by=rule&${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data.map((row: Record<string, unknown>) => [
    row['value'],
    row['installs'],
    row['events'],
    row['revenue'],
  ]);
};

test('installs, events and revenue belong to the rule whose click led to them', async () => {
  const euros = (amount: string) => [{ currency: 'EUR', amount }];
  const byRule = [
    [ids[0], 1, 2, euros('1')],
    [ids[1], 1, 2, euros('2')],
    [ids[2], 1, 2, euros('3')],
    [null, 1, 2, euros('4')],
  ];
  expect(await figures(caller, `link_id=${link}`)).toEqual(byRule);
  expect(await figures(caller, `rule=${ids[1]}`)).toEqual([byRule[1]]);
  const { body } = await stage.get(
    caller,
    `/analytics/retention?start=2026-04-01&days=0&group_by=rule&link_id=${link}`,
  );
  expect(
    body.data.map((cohort: { group: string | null; installs: number }) => [cohort.group, cohort.installs]).sort(),
  ).toEqual([...ids, null].map((id) => [id, 1]).sort());
});

test('an install that names a click of another organization does not reveal its rule', async () => {
  expect(await figures(memberOf(foreign.organization_id), '')).toEqual([[null, 1, 0, []]]);
});

test('figures keep their rule when rules move, and lose the label once the link no longer has the rule', async () => {
  await setRules([
    { ...weekend, variants: [{ url: c, percent: 100 }] },
    { ...inGermany, url: a },
    { country: ['FR'], url: b },
  ]);
  expect(await rows(`link_id=${link}`)).toEqual([
    [ids[0], 'Rule 2', 5],
    [ids[1], null, 4],
    [ids[2], 'Rule 1, variant A', 3],
    [null, null, 2],
  ]);
  const [first, , third] = await rows(`link_id=${link},${other}`);
  expect([first[1], third[1]]).toEqual([
    expect.stringMatching(/: Rule 2$/),
    expect.stringMatching(/: Rule 1, variant A$/),
  ]);
});

test('the rules of a link of another organization have no labels', async () => {
  const [theirs] = foreign.apps[0]?.links.map(({ id }) => id) ?? [];
  expect((await stage.get(caller, `/analytics/breakdown?by=rule&link_id=${theirs}`)).status).toBe(403);
});
