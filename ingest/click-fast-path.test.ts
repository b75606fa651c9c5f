import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { openCountryDatabase } from '#common/country-database.ts';
import { DAY_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import type { Click } from '#common/log/record.ts';
import { Devices } from '#common/redirect/device.ts';
import { LinkPlan } from '#common/redirect/plan.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { propertyRuns } from '#testing/property-runs.ts';
import { Attribution } from './attribution/attribution.ts';
import { ClickHouseRecords } from './attribution/clickhouse-records.ts';
import { FirstSeen, newIdFilters } from './attribution/first-seen.ts';
import { InstallLookup } from './attribution/install-lookup.ts';
import { BatchFormer } from './batch-former.ts';
import { Enrichment } from './enrichment.ts';
import type { LogFrame } from './formed-batch.ts';
import { Visitors } from './visitors.ts';

const countries = openCountryDatabase('');
const began = Date.UTC(2026, 10, 30, 23, 59, 59);

/** Never used, because there are only clicks. */
const clickhouse = new ClickHouse({ url: 'http://127.0.0.1:1/none' });

function enrichmentWith(visitors: Visitors): Enrichment {
  return new Enrichment({ countries, visitors });
}

function former(enrichment?: Enrichment): BatchFormer {
  const known = new Set<number>();
  const saltOf = (day: number) => {
    if (!known.has(day)) throw new Error(`day ${day} was not prepared`);
    return `salt of ${day}`;
  };
  const visitors = new Visitors(saltOf);
  return new BatchFormer({
    enrichment: enrichment ?? enrichmentWith(visitors),
    visitors,
    days: {
      has: (day) => known.has(day),
      prepare: async (days) => {
        for (const day of days) known.add(day);
      },
    },
    attribution: new Attribution({
      firstSeen: [
        new FirstSeen({
          stored: new ClickHouseRecords(clickhouse),
          clock: Date.now,
          partition: 0,
          partitions: 1,
          filters: newIdFilters(),
        }),
      ],
      installs: new InstallLookup(null, new ClickHouseRecords(clickhouse)),
      clicks: { of: async () => new Map() },
      countries,
    }),
  });
}

function frameOf(frame_no: number, lines: readonly string[], records = lines.length): LogFrame {
  const payload = lines.map((line) => `${line}\n`).join('');
  const bytes = Buffer.alloc(64 + 3 * payload.length);
  const header = {
    kind: 'click',
    partition: 0,
    producer_id: 'p'.repeat(26),
    frame_no,
    records,
    written_at: began,
  } as const;
  const length = encodeFrame(bytes, 0, header, payload);
  const read = readFrame(bytes, 0);
  if (read.state !== 'frame') throw new Error(read.state);
  return { header: read.header, bytes: bytes.subarray(0, length), streamTime: 1 };
}

const [organization_id, app_id] = [newId('org', 1), newId('app', 1)];
const links = [newId('lnk', 1), newId('lnk', 2)];
const texts = { ip: '8.8.8.8', user_agent: 'a', language: '', referrer: '', query: '', campaign: '', rule: '' };
const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
const flags = { is_prefetch: false, is_preview: false };
const odd = ['a"b', 'a\\b', 'größe', '日本', '\u{1f600}', '\u007f', '\ud800', 'a\nb'];
/** Mostly texts without escapes: a line with one escape is not plain, and each line has seven texts. */
const text = (...some: string[]) =>
  fc.oneof({ weight: 30, arbitrary: fc.constantFrom('', ...some) }, { weight: 1, arbitrary: fc.constantFrom(...odd) });
const click: fc.Arbitrary<Click> = fc.record({
  click_id: fc.constantFrom(1, 2, 3).map((time) => newId('clk', time)),
  organization_id: fc.constant(organization_id),
  app_id: fc.constant(app_id),
  link_id: fc.constantFrom(...links),
  time: fc.constantFrom(began, began + 1, began + 2_000, began + DAY_MS),
  ip: text('8.8.8.8', '2001:4860:4860::8888', 'no address'),
  privacy_mode: fc.constantFrom('anonymize_ip', 'full_ip', 'no_ip'),
  user_agent: text('Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X)', 'curl/8.0'),
  language: text('de-DE,de;q=0.9'),
  referrer: text('https://example.com/a'),
  query: text('a=b', 'x'.repeat(200), 'y'.repeat(2_000)),
  campaign: text('spring'),
  utm_source: text('mail'),
  utm_medium: text(),
  utm_campaign: text('summer'),
  utm_term: text(),
  utm_content: text('big'),
  trigger: fc.constantFrom('link', 'universal_link'),
  rule: text('0123456789abcdef', 'x'.repeat(32)),
  is_prefetch: fc.constantFrom(false, false, false, true),
  is_preview: fc.constantFrom(false, false, false, true),
});

/** Changes that give lines no edge writes. */
const spoilt: readonly ((line: string) => string)[] = [
  (line) => line.replace('"time":', '"time": '),
  (line) => line.replace(/"time":\d+/, '"time":17e11'),
  (line) => line.replace('}', `,"time":${began - 40 * DAY_MS}}`),
  (line) => line.replace('}', ',"ip":"1.1.1.1"}'),
  (line) => line.replace('}', ',"other":1}'),
  (line) => line.replace('"v":1', '"v":2'),
  (line) => line.replace('"clk_', '"CLK_'),
  (line) => line.replace('"query":"', '"query":"\u0001'),
  (line) => line.replace('"campaign":"', '"campaign":7,"x":"'),
  (line) => line.slice(0, -1),
  (line) => `${line}}`,
  (line) => `${line},"ip":"1.1.1.1"}`,
  // The same without escapes: not as the edge writes it, but valid.
  (line) => JSON.stringify(JSON.parse(line)),
  () => '',
  () => '[]',
];
const line = fc.oneof(
  { weight: 20, arbitrary: click.map(clickJson) },
  { weight: 1, arbitrary: fc.tuple(click, fc.constantFrom(...spoilt)).map(([one, spoil]) => spoil(clickJson(one))) },
);

const batch = { partition: 0, batch_no: 1 };

test('the fast path and JSON give the same rows and dead letters, whatever came before', async () => {
  const [byPieces, byJson] = [former(), former()];
  let frameNo = 0;
  let [plain, all] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(line, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
      async (lists) => {
        const frames = lists.map((lines) => frameOf(++frameNo, lines));
        all += lists.flat().length;
        plain += lists.flat().filter((one) => !one.includes('\\')).length;
        const fast = await byPieces.form(batch, frames);
        // No row is refused, but each row is checked individually.
        const slow = await byJson.form(batch, frames, { refused: new Set() });
        const shown = ({ parts }: typeof fast) =>
          parts
            .map(({ table, partition, rows, time_from, time_to, body }) => {
              return { table, partition, rows, time_from, time_to, body: body.toString('hex') };
            })
            .sort((a, b) => (a.table + a.partition < b.table + b.partition ? -1 : 1));
        expect(shown(fast)).toEqual(shown(slow));
        expect(fast.rejections).toEqual(slow.rejections);
      },
    ),
    { numRuns: propertyRuns(200) },
  );
  expect(plain).toBeGreaterThan(all / 2);
  expect(plain).toBeLessThan(all);
});

test('no line of a frame is lost if the frame has fewer or more lines than it announces', async () => {
  const lines = fc.sample(click, 3).map(clickJson);
  for (const records of [2, 3, 5]) {
    const { rows } = await former().form(batch, [frameOf(1, lines, records)]);
    expect(rows).toBe(Math.max(3, records));
  }
});

test('a line that begins like a known one is still read in full', async () => {
  const [plain] = fc.sample(click, { numRuns: 1, seed: 1 });
  if (plain === undefined) throw new Error('no click');
  const sound: Click = {
    ...plain,
    ip: '8.8.8.8',
    user_agent: 'a',
    language: 'de',
    referrer: '',
    query: 'q',
    campaign: 'c',
  };
  for (const name of ['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content'] as const) sound[name] = '';
  const known = clickJson({ ...sound, is_prefetch: false, is_preview: false });
  const others = [
    known.replace(app_id, newId('app', 2)),
    known.replace(organization_id, newId('org', 2)),
    `${known}}`,
    known.replace('"query":"q"', `"query":"${'q'.repeat(2_049)}"`),
    known.replace('"query":"q"', '"query":"\u0001"'),
    known.replace('}', ',"rule":"0123456789abcdef"}'),
    known.replace('}', `,"rule":"${'r'.repeat(33)}"}`),
    known.replace('}', ',"rule":"\u0001"}'),
    known.replace('}', ',"rule":"a","rule":"b"}'),
    known.replace('"query":"q"', '"rule":"a","query":"q"'),
    known.replace('"clk_', '"CLK_'),
    known.replace('"campaign":"c"', '"campaign":"c","ip":"1.1.1.1"'),
    known.replace('}', ',"is_preview":true}'),
  ];
  const shown = ({ parts, rejections }: Awaited<ReturnType<BatchFormer['form']>>) => [
    parts.map(({ rows, body }) => [rows, body.toString('hex')]),
    rejections,
  ];
  for (const other of others) {
    const [byPieces, byJson] = [former(), former()];
    const frames = [frameOf(1, [known]), frameOf(2, [known, other])];
    const [fast, slow] = [await byPieces.form(batch, frames), await byJson.form(batch, frames, { refused: new Set() })];
    expect(shown(fast), other).toEqual(shown(slow));
  }
});

test('a redirector’s click becomes a row without parsing once its link, agent, address and headers are known', async () => {
  const enrichment = enrichmentWith(new Visitors(() => 'salt'));
  const one = former(enrichment);
  const app = { ...testApp, id: app_id, organization_id };
  const devices = new Devices();
  const visitor = { ip: '8.8.8.8', language: 'de', referrer: 'https://example.com', is_prefetch: false };
  const iphone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15';
  const lines = [
    ['summer', ''],
    [null, 'mail'],
  ].flatMap(([campaign = null, utm_source = null]) =>
    [iphone, 'curl/8.0'].map((user_agent) => (n: number) => {
      const link = { ...testLink, id: links[campaign === null ? 0 : 1] ?? '', app_id, campaign, utm_source };
      const seen = { ...visitor, user_agent, query: n % 2 === 0 ? '' : `n=${n}` };
      const ruleId = n % 3 === 0 ? '0123456789abcdef' : '';
      const plan = new LinkPlan(app, link);
      return plan.record(newId('clk', began + n), seen, devices.of(user_agent), false, began + n, ruleId);
    }),
  );
  await one.form(batch, [
    frameOf(
      1,
      lines.map((line) => line(0)),
    ),
  ]);
  const { parsed } = enrichment.clickLines;
  expect(parsed).toBeGreaterThan(0);
  const more = Array.from({ length: 50 }, (_, n) => lines.map((line) => line(n))).flat();
  expect(await one.form(batch, [frameOf(2, more)])).toMatchObject({ rows: more.length, rejections: new Map() });
  expect(enrichment.clickLines).toEqual({ read: more.length + lines.length, parsed });
});

test('a link is parsed again when it gets a campaign, but not for clicks that come from apps', async () => {
  const enrichment = enrichmentWith(new Visitors(() => 'salt'));
  const one = former(enrichment);
  const [sound] = fc.sample(click, { numRuns: 1, seed: 1 });
  if (sound === undefined) throw new Error('no click');
  const plain: Click = { ...sound, ...texts, ...utm, ...flags, trigger: 'link', privacy_mode: 'full_ip' };
  const lines: Click[] = [plain, { ...plain, campaign: 'c' }, { ...plain, campaign: 'c', trigger: 'universal_link' }];
  for (const [frame, of] of lines.entries())
    await one.form(batch, [frameOf(frame + 1, [clickJson(of), clickJson(of)])]);
  expect(enrichment.clickLines).toEqual({ read: 6, parsed: 2 });
});
