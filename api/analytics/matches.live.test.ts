import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { makeTenant } from '#api/testing/records.ts';
import { RowWriter } from '#clickhouse/row-binary.ts';
import { matchColumns, writeMatchRow } from '#clickhouse/rows-matches.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import type { MatchCandidate, MatchRecord } from '#common/log/match-record.ts';
import { plainMatch } from '#common/testing/match-record.ts';

/** Recent, because ClickHouse drops old records by its own clock. */
const nowMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS / 2;
const mine = makeTenant(2, 2, nowMs);
const other = makeTenant(1, 1, nowMs);
const viewer = memberOf(mine.organization_id);
const app_id = mine.apps[0]?.id ?? '';
const [link, rival] = mine.apps[0]?.links ?? [];
let stage: Stage;
let frames = 0;

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, other]) await storeTenant(stage.db, tenant);
});
afterAll(() => stage.stop());

async function store(...matches: MatchRecord[]): Promise<void> {
  const into = new RowWriter();
  const frame_no = ++frames;
  for (const [idx, match] of matches.entries()) {
    writeMatchRow(into, { ...match, producer_id: 'test', frame_no, idx }, { partition: 0, batch_no: 1 });
  }
  const outcome = await stage.clickhouse.insert('matches', into.bytes, {
    token: `matches-${frame_no}`,
    format: 'RowBinary',
    columns: matchColumns,
  });
  if (outcome.kind !== 'written') throw new Error(outcome.message);
}

const place = { organization_id: mine.organization_id, app_id };

function candidate(more: Partial<MatchCandidate> = {}): MatchCandidate {
  return {
    click_id: newId('clk', nowMs),
    link_id: link?.id ?? '',
    age_ms: 25_200_000,
    browser: 'Instagram',
    signals: { family: 'ios', os_version: [17, 5], language: ['en', 'us'] },
    gate: null,
    confidence: 0.7,
    factors: [
      ['ip', 1, 40, 40],
      ['os_version', 0, 0, 15],
      ['age', 0.5, 2.5, 5],
    ],
    ...more,
  };
}

test('a match is explained: the decision, each click, the settings, and the data that the device reported', async () => {
  const candidates = [
    candidate({ confidence: 0.81 }),
    candidate({ confidence: 0.78, link_id: rival?.id ?? '' }),
    candidate({ gate: 'window', confidence: 0, factors: [] }),
  ];
  const match = plainMatch(place, {
    ...{ time: nowMs - 60_000, outcome: 'ambiguous', competing_links: 2, device_id: 'd1' },
    detail: { candidates, candidates_total: 3 },
  });
  await store(match);
  const { status, body } = await stage.get(viewer, `/matches/${match.match_id}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    match_id: match.match_id,
    app_id,
    time: new Date(nowMs - 60_000).toISOString(),
    outcome: 'ambiguous',
    explanation: 'Refused: two links within 0.10 of each other (0.81 and 0.78), so neither is matched.',
    match_type: 'none',
    click_id: null,
    device_id: 'd1',
    settings: { probabilistic_window_hours: 6, min_confidence: 0.6 },
    device: { system: 'ios', os_version: '17.5.1', device_model: 'iphone15,2', languages: ['en-us'] },
    candidates_total: 3,
    without_evidence: null,
  });
  expect(body.candidates).toMatchObject([
    {
      link_id: link?.id,
      clicked_at: new Date(nowMs - 60_000 - 25_200_000).toISOString(),
      gate: null,
      explanation: 'Confidence 0.81 after 7 h: address agrees; OS version differs.',
      factors: [
        { factor: 'ip', agreement: 1, points: 40, of: 40 },
        { factor: 'os_version', agreement: 0, points: 0, of: 15 },
        { factor: 'age', agreement: 0.5, points: 2.5, of: 5 },
      ],
    },
    { link_id: rival?.id },
    { gate: 'window', explanation: 'The click was 7 h old, your window is 6 h.' },
  ]);
});

test('a match of another organization is visible neither by its id nor in a list', async () => {
  const match = plainMatch(place, { time: nowMs - 120_000 });
  await store(match);
  const stranger = memberOf(other.organization_id);
  expect((await stage.get(stranger, `/matches/${match.match_id}`)).status).toBe(404);
  expect((await stage.get(stranger, '/matches')).body.data).toEqual([]);
  expect((await stage.get(stranger, `/matches?app_id=${app_id}`)).status).toBe(403);
  expect((await stage.get(stranger, `/matches?organization_id=${mine.organization_id}`)).status).toBe(403);
  expect((await stage.get(memberOf(), `/matches/${match.match_id}`)).status).toBe(404);
  for (const id of ['mat_x', newId('mat', nowMs), "' OR 1=1"]) {
    expect((await stage.get(viewer, `/matches/${encodeURIComponent(id)}`)).status).toBe(404);
  }
});

test('a list shows the newest matches first, in pages, filtered by outcome, type, device and install', async () => {
  const app = mine.apps[1]?.id ?? '';
  const of = { organization_id: mine.organization_id, app_id: app };
  const at = (n: number) => ({ time: nowMs - HOUR_MS - n * 1_000 });
  const matches = [
    plainMatch(of, { ...at(0), outcome: 'gated', device_id: 'd1' }),
    plainMatch(of, { ...at(1), outcome: 'matched', match_type: 'click_id', install_id: 'i1' }),
    plainMatch(of, { ...at(2), outcome: 'off', device_id: 'd1' }),
    plainMatch(of, { ...at(3), outcome: 'matched', match_type: 'probabilistic', platform: 'android' }),
  ];
  await store(...matches, { ...plainMatch(of, { ...at(4) }), match_id: '' });
  const ids = async (query: string) => {
    const { body } = await stage.get(viewer, `/matches?app_id=${app}${query}`);
    return [body.pagination.total, ...body.data.map((one: { match_id: string }) => one.match_id)];
  };
  const [a, b, c, d] = matches.map((one) => one.match_id);
  expect(await ids('')).toEqual([4, a, b, c, d]);
  expect(await ids('&limit=2')).toEqual([4, a, b]);
  expect(await ids('&limit=2&offset=2')).toEqual([4, c, d]);
  expect(await ids('&outcome=matched')).toEqual([2, b, d]);
  expect(await ids('&match_type=probabilistic')).toEqual([1, d]);
  expect(await ids('&device_id=d1')).toEqual([2, a, c]);
  expect(await ids('&platform=android')).toEqual([1, d]);
  expect(await ids('&install_id=i1')).toEqual([1, b]);
  expect(await ids(`&end=${new Date(nowMs - 3_600_500).toISOString()}`)).toEqual([3, b, c, d]);
  // An install that referred to a match.
  await stage.clickhouse.command(
    `INSERT INTO installs (organization_id, app_id, install_id, match_id, time, log_partition) VALUES ({o:String}, {a:String}, 'i2', {m:String}, now(), 0)`,
    { o: mine.organization_id, a: app, m: c },
  );
  expect(await ids('&install_id=i2')).toEqual([1, c]);
  expect((await stage.get(viewer, '/matches?outcome=nonsense')).status).toBe(400);
});

test('matches older than ninety days are not shown', async () => {
  const old = plainMatch(place, { time: nowMs - 91 * DAY_MS });
  await store(old);
  expect((await stage.get(viewer, `/matches/${old.match_id}`)).status).toBe(404);
  const { body } = await stage.get(viewer, '/matches?start=2025-01-01');
  expect(body.data.map((one: { match_id: string }) => one.match_id)).not.toContain(old.match_id);
});

test('matches are exported with all of their fields, and an export continues after a cursor', async () => {
  const text = await (await stage.get(viewer, `/analytics/export?kind=matches&app_id=${app_id}`)).text();
  const lines = text.trim().split('\n');
  const [first, second] = lines.map((line) => JSON.parse(line));
  expect(first).toMatchObject({ app_id, platform: 'ios', detail: { settings: { min_confidence: 0.6 } } });
  const rest = await stage.get(viewer, `/analytics/export?kind=matches&app_id=${app_id}&cursor=${first.cursor}`);
  expect((await rest.text()).trim().split('\n')).toEqual(lines.slice(1));
  expect(second).toBeDefined();
  const narrowed = await stage.get(viewer, '/analytics/export?kind=matches&country=DE');
  expect([narrowed.status, narrowed.body.error.details.field]).toEqual([400, 'country']);
});

test('precision and recall are computed from matches with a named click, without a ratio if there are too few, also with other settings', async () => {
  const tenant = makeTenant(1, 2, nowMs);
  await storeTenant(stage.db, tenant);
  const of = { organization_id: tenant.organization_id, app_id: tenant.apps[0]?.id ?? '' };
  const [a = '', b = ''] = tenant.apps[0]?.links.map((one) => one.id) ?? [];
  const truth = (shadow: Partial<MatchRecord>, confidence: number) =>
    plainMatch(of, {
      ...{ time: nowMs - 60_000, outcome: 'matched', match_type: 'clipboard', link_id: a, browser: 'Instagram' },
      ...{ shadow_outcome: 'low_confidence', ...shadow, shadow_confidence: shadow.shadow_link_id ? confidence : 0 },
      detail: { candidates: [candidate({ link_id: shadow.shadow_link_id ?? a, confidence })], candidates_total: 1 },
    });
  const right = { shadow_outcome: 'matched', shadow_link_id: a };
  const wrong = { shadow_outcome: 'matched', shadow_link_id: b };
  await store(
    ...Array.from({ length: 18 }, () => truth(right, 0.95)),
    ...Array.from({ length: 3 }, () => truth(wrong, 0.65)),
    ...Array.from({ length: 4 }, () => truth({}, 0.5)),
  );
  const member = memberOf(tenant.organization_id);
  const { status, body } = await stage.get(member, '/analytics/match-quality?min_confidence=0.4');
  expect(status).toBe(200);
  expect(body.totals).toEqual({ right: 18, wrong: 3, missed: 4, precision: 0.8571, recall: 0.72 });
  expect(body.by_confidence).toEqual([
    { from: 0.6, right: 0, wrong: 3, precision: null },
    { from: 0.9, right: 18, wrong: 0, precision: null },
  ]);
  expect(body.by_platform).toMatchObject([{ platform: 'ios', right: 18, wrong: 3, missed: 4 }]);
  expect(body.by_browser).toMatchObject([{ browser: 'Instagram', right: 18 }]);
  expect(body.what_if).toMatchObject({ right: 22, wrong: 3, missed: 0, unknown: 0, is_sample: false });
  const strict = await stage.get(member, '/analytics/match-quality?min_confidence=0.8');
  expect(strict.body.what_if).toMatchObject({ right: 18, wrong: 0, missed: 7 });
  const stranger = await stage.get(memberOf(other.organization_id), '/analytics/match-quality');
  expect(stranger.body.totals).toEqual({ right: 0, wrong: 0, missed: 0, precision: null, recall: null });
});
