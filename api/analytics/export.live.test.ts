import { afterAll, beforeAll, expect, test } from 'vitest';
import { memberOf, type Stage, startStage, storeTenant } from '#api/testing/analytics-stage.ts';
import { isOpen, makeRecords, makeTenant, storeRecords } from '#api/testing/records.ts';
import { ClickHouse } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { ndjsonLine } from './export-lines.ts';

const nowMs = Date.parse('2026-04-10T12:00:00Z');
const fromMs = nowMs - 20 * DAY_MS;
const mine = makeTenant(2, 3, fromMs);
const foreign = makeTenant(1, 2, fromMs);
const caller = memberOf(mine.organization_id);
const records = makeRecords(seededRandom(1), mine, 9_000, fromMs, nowMs);
let stage: Stage;

beforeAll(async () => {
  stage = await startStage(nowMs);
  for (const tenant of [mine, foreign]) await storeTenant(stage.db, tenant);
  await storeRecords(stage.clickhouse, records, 'mine');
  await storeRecords(stage.clickhouse, makeRecords(seededRandom(2), foreign, 500, fromMs, nowMs), 'foreign');
});
afterAll(() => stage.stop());

interface Line {
  readonly organization_id: string;
  readonly cursor: string;
  readonly time: string;
  readonly revenue_amount?: string | null;
}

async function ndjson(query: string): Promise<Line[]> {
  const reply = await stage.get(caller, `/analytics/export?${query}`);
  const text = await reply.text();
  expect(reply.status, text.slice(0, 300)).toBe(200);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

test.each([
  ['clicks', 'click_id', (r: (typeof records)[number]) => r.kind === 'clicks' && !r.is_bot],
  ['installs', 'install_id', (r: (typeof records)[number]) => r.kind === 'installs' && !isOpen(r)],
  ['opens', 'match_id', isOpen],
  ['events', 'event_id', (r: (typeof records)[number]) => r.kind === 'events'],
] as const)(
  'the export of %s contains every record of the caller once, and no other records',
  async (kind, id, isWanted) => {
    const lines = await ndjson(`kind=${kind}&interval=30d`);
    const wanted = records.filter(isWanted);
    expect(new Set(lines.map((line) => (line as unknown as Record<string, string>)[id])).size).toBe(wanted.length);
    expect(lines.length).toBe(wanted.length);
    expect(new Set(lines.map((line) => line.organization_id))).toEqual(new Set([mine.organization_id]));
    const times = lines.map((line) => line.time).sort();
    expect(times).toEqual(wanted.map((r) => new Date(r.time).toISOString()).sort());
    for (const line of lines)
      for (const inner of ['visitor', 'batch_id', 'producer_id']) expect(line).not.toHaveProperty(inner);
  },
);

test('an export can be continued after any record', async () => {
  const whole = await ndjson('kind=events&interval=30d');
  for (const at of [0, 1, 777, whole.length - 2, whole.length - 1]) {
    const rest = await ndjson(`kind=events&interval=30d&cursor=${whole[at]?.cursor}`);
    expect(rest).toEqual(whole.slice(at + 1));
  }
});

test('amounts are exact text, and bots are exported only on request', async () => {
  const events = await ndjson('kind=events&interval=30d');
  const sum = events.reduce((n, line) => n + Math.round(Number(line.revenue_amount ?? '0') * 1000), 0);
  expect(sum).toBe(records.reduce((n, record) => n + record.amount, 0));
  const clicks = await ndjson('kind=clicks&interval=30d&include_bots=true');
  expect(clicks.length).toBe(records.filter((record) => record.kind === 'clicks').length);
});

test('a CSV has a header, quotes every text and contains no formulas', async () => {
  await stage.clickhouse.command(
    `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, user_agent, campaign)
     SELECT 'c1', {organization:String}, {app:String}, 'lnk_1', toDateTime64('2026-04-10 01:00:00', 3, 'UTC'), '=1+1', 'a,"b"'`,
    { organization: mine.organization_id, app: mine.apps[0]?.id ?? '' },
  );
  const reply = await stage.get(
    caller,
    '/analytics/export?format=csv&start=2026-04-10T01:00:00Z&end=2026-04-10T01:00:01Z',
  );
  const [head = '', ...lines] = (await reply.text()).trimEnd().split('\r\n');
  expect(head.startsWith('click_id,organization_id,app_id,link_id,time')).toBe(true);
  const line = lines.find((one) => one.startsWith('"c1",')) ?? '';
  expect(line).toContain(`,"'=1+1",`);
  expect(line).toContain('"a,""b"""');
  const cursor = line.split(',').at(-1)?.replaceAll('"', '');
  const rest = await stage.get(
    caller,
    `/analytics/export?format=csv&start=2026-04-10T01:00:00Z&end=2026-04-10T01:00:01Z&cursor=${cursor}`,
  );
  expect(await rest.text()).not.toContain('click_id');
});

test('a cursor for one kind of records is rejected for another', async () => {
  const [first] = await ndjson('kind=events&interval=30d');
  const { status, body } = await stage.get(caller, `/analytics/export?kind=clicks&cursor=${first?.cursor}`);
  expect([status, body.error.details.field]).toEqual([400, 'cursor']);
  expect(body.error.message).toContain('events');
});

test('properties are exported as they were sent, to the last digit', () => {
  const row = { organization_id: 'o', app_id: 'a', link_id: 'l', time_ms: 1, event_id: 'e', amount: null };
  const line = ndjsonLine('events', ['event_id', 'amount', 'properties'], {
    ...row,
    properties: '{"n":12345678901234567890}',
  });
  expect(line).toContain('{"event_id":"e","amount":null,"properties":{"n":12345678901234567890},"cursor":"');
  expect(ndjsonLine('events', ['event_id', 'properties'], { ...row, properties: 'broken' })).toContain('"broken"');
});

test.each(['nonsense', Buffer.from('[1,2,3,4,5,6]').toString('base64url'), ''])(
  'an invalid cursor gets 400: %s',
  async (cursor) => {
    const { status, body } = await stage.get(caller, `/analytics/export?cursor=${cursor}`);
    expect([status, body?.error?.details?.field]).toEqual([400, 'cursor']);
  },
);

test.each(['ndjson', 'csv'])(
  'while ClickHouse is unavailable, an export as %s gets 500 with Retry-After',
  async (format) => {
    const nowhere = new ClickHouse({ url: 'http://127.0.0.1:1/none' });
    const ask = stage.again(nowhere);
    // Repeated, to show that each failed export releases its slot in the queue.
    for (let round = 0; round < 6; round++) {
      const { status, body } = await ask(caller, `/analytics/export?interval=30d&format=${format}`);
      expect([status, body?.error?.code]).toEqual([500, 'INTERNAL_ERROR']);
    }
    await nowhere.close();
  },
);

test('a CSV without records has its header, and is a file with a name of ours', async () => {
  const reply = await stage.get(caller, '/analytics/export?interval=30d&format=csv&country=XX');
  expect((await reply.text()).split('\r\n')).toEqual([expect.stringMatching(/^click_id,.*,cursor$/), '']);
  expect(reply.headers).toEqual({ 'Content-Disposition': 'attachment; filename="clicks.csv"' });
});
