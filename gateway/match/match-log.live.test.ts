import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecentClicks } from '#common/attribution/recent-clicks.ts';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { decodeMatch, type MatchDetail, type MatchRecord } from '#common/log/match-record.ts';
import { SdkEdge } from '#gateway/testing/sdk-edge.ts';

const safari =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const instagram = safari.replace(' Safari/604.1', ' Instagram 300.0.0.0');
const iphone = { platform: 'ios', os_version: '17.5.1', device_model: 'iPhone15,2', language: 'en_US' };

let edge: SdkEdge;
let clicks: RecentClicks;
beforeAll(async () => {
  edge = await SdkEdge.start();
  clicks = new RecentClicks(edge.redis);
});
afterAll(async () => {
  await edge.stop();
  expect(edge.failures).toEqual([]);
});

async function click(app_id: string, link_id: string, more: { ageMs?: number; ip?: string; user_agent?: string } = {}) {
  const time = Date.now() - (more.ageMs ?? 60_000);
  const click_id = newId('clk', time);
  const utm = { utm_source: '', utm_medium: '', utm_campaign: '', utm_term: '', utm_content: '' };
  const recent = { click_id, app_id, link_id, time, query: '', campaign: '', ...utm, is_bot: false };
  const browser = { user_agent: more.user_agent ?? safari, language: 'en-US,en;q=0.9' };
  await clicks.put([
    { click: recent, is_bot: false, near: { address: more.ip ?? '198.51.100.7', browser, windowMs: 6 * HOUR_MS } },
  ]);
  return click_id;
}

type Read = Omit<MatchRecord, 'detail'> & { readonly detail: MatchDetail };

function recorded(app_id: string): Read[] {
  return edge.lines('match').flatMap((line): Read[] => {
    const record = decodeMatch(line);
    if (typeof record === 'string') throw new Error(record);
    return record.app_id === app_id ? [{ ...record, detail: JSON.parse(record.detail) as MatchDetail }] : [];
  });
}

test('each decided answer has one record under its match_id, and a repeated answer has no second record', async () => {
  const app = await edge.app();
  const link_id = await edge.link(app.app_id, 'one');
  const click_id = await click(app.app_id, link_id, { user_agent: instagram });
  const first = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  const again = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  expect(again.body).toEqual(first.body);
  const other = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd2' });
  expect([first.body.match_type, other.body.reason]).toEqual(['probabilistic', 'gated']);
  const [given, refused, ...more] = recorded(app.app_id);
  expect(more).toEqual([]);
  expect(given).toMatchObject({
    match_id: first.body.match_id,
    organization_id: edge.organization_id,
    device_id: 'd1',
    outcome: 'matched',
    match_type: 'probabilistic',
    confidence: first.body.confidence,
    click_id,
    link_id,
    browser: 'Instagram',
    shadow_outcome: '',
    detail: {
      settings: { probabilistic_window_hours: 6, min_confidence: 0.6 },
      device: { family: 'ios', os_version: [17, 5, 1], device_model: 'iphone15,2', language: ['en', 'us'] },
      network: 'many',
      candidates_total: 1,
      candidates: [{ click_id, link_id, gate: null, confidence: first.body.confidence }],
    },
  });
  expect(given?.detail.candidates[0]?.factors).toContainEqual(['ip', 1, 40, 40]);
  expect(refused).toMatchObject({
    match_id: other.body.match_id,
    outcome: 'gated',
    match_type: 'none',
    detail: { candidates: [{ click_id, gate: 'claimed' }] },
  });
});

test('if evidence decided, the record also has the decision without evidence', async () => {
  const app = await edge.app();
  const [mine, other] = [await edge.link(app.app_id, 'mine'), await edge.link(app.app_id, 'other')];
  const named = await click(app.app_id, mine);
  const right = await edge.post('/sdk/match', app.key, { ...iphone, click_id: named, device_id: 'd1' });
  expect(right.body.match_type).toBe('click_id');
  // Redis gets its copy of the claim after the answer, and the decision without evidence reads that copy.
  const holder = async () => (await clicks.gather(app.app_id, '', '', [named])).named[0]?.claimed_by;
  await expect.poll(holder).toBe('d1');
  const elsewhere = await click(app.app_id, mine, { ip: '203.0.113.9' });
  const near = await click(app.app_id, other);
  await edge.post('/sdk/match', app.key, { ...iphone, clipboard_url: `https://x.y/?click_id=${elsewhere}` });
  await edge.post('/sdk/match', app.key, { ...iphone, click_id: newId('clk', Date.now() - 200_000) });
  expect(recorded(app.app_id)).toMatchObject([
    { outcome: 'matched', link_id: mine, shadow_outcome: 'matched', shadow_link_id: mine, shadow_click_id: named },
    { match_type: 'clipboard', link_id: mine, shadow_outcome: 'matched', shadow_link_id: other, shadow_click_id: near },
    { outcome: 'click_unknown', detail: { evidence: [{ type: 'click_id', age_ms: null }] } },
  ]);
});

test('an install has a match record too, which contains its id', async () => {
  const app = await edge.app();
  await edge.post('/sdk/install', app.key, { ...iphone, install_id: 'i-1' });
  expect(recorded(app.app_id)).toMatchObject([{ install_id: 'i-1', device_id: '', outcome: 'no_candidates' }]);
});

test('an opened link is recorded once, however often the same opening is sent', async () => {
  const app = await edge.app();
  const link_id = await edge.link(app.app_id, 'open');
  const body = { ...iphone, url: `https://${app.host}/open`, device_id: 'd1' };
  for (let n = 0; n < 2; n++) await edge.post('/sdk/match', app.key, body);
  expect(recorded(app.app_id)).toMatchObject([{ match_type: 'url', link_id, outcome: 'matched' }]);
});

test.each([
  ['full_ip', '198.51.100.57'],
  ['anonymize_ip', '198.51.100.0'],
  ['no_ip', ''],
] as const)('with the privacy mode %s the journal has no more of the address than "%s"', async (privacy_mode, ip) => {
  const app = await edge.app({ privacy_mode });
  const headers = { 'x-forwarded-for': '198.51.100.57' };
  await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' }, headers);
  expect(recorded(app.app_id)).toMatchObject([{ ip, privacy_mode }]);
  const lines = edge.lines('match').filter((line) => line.includes(app.app_id));
  expect(lines.join().includes('198.51.100.57')).toBe(privacy_mode === 'full_ip');
});

test('of a hundred clicks at an address ten are stored, including the best of each link', async () => {
  const app = await edge.app();
  const links = [await edge.link(app.app_id, 'link1'), await edge.link(app.app_id, 'link2')];
  for (let n = 0; n < 100; n++) {
    await click(app.app_id, links[n === 40 ? 1 : 0] ?? '', { ageMs: 60_000 + n * 1_000 });
  }
  const answer = await edge.post('/sdk/match', app.key, { ...iphone, device_id: 'd1' });
  expect(answer.body.reason).toBe('ambiguous');
  const [record] = recorded(app.app_id);
  expect([record?.detail.candidates.length, record?.detail.candidates_total]).toEqual([10, 100]);
  expect(new Set(record?.detail.candidates.map((one) => one.link_id))).toEqual(new Set(links));
  expect(JSON.stringify(record).length).toBeLessThan(17_000);
});
