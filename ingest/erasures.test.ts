import { expect, test } from 'vitest';
import type { EventRow } from '#clickhouse/rows-events.ts';
import type { InstallRow } from '#clickhouse/rows-installs.ts';
import { erasedIdHash } from '#common/erased-ids.ts';
import type { Click } from '#common/log/record.ts';
import { Erasures } from './erasures.ts';
import { decodeClick } from './record-decoder.ts';
import { testClick } from './testing/pipeline-harness.ts';

const untilMs = 1_700_000_000_000;
const click = decodeClick(testClick(untilMs)) as Click;
const { organization_id, app_id, link_id } = click;
const ids = { install_id: 'i1', device_id: 'd1', user_id: 'u1', click_id: click.click_id };
const origin = { producer_id: 'p', frame_no: 1, idx: 0 };
const common = { ...ids, ...origin, organization_id, app_id, link_id, properties: '{"who":"u1"}', campaign: 'c' };
const install = { ...common, time: untilMs, ip: '192.0.2.1', match_id: 'm', country: 'DE' } as InstallRow;
const event = { ...common, received_at: untilMs, event_id: 'e', session_id: 's', revenue_amount: '2' } as EventRow;

async function erasures(kind: 'device' | 'user' | 'install' | 'click' | null, id = '', organization = organization_id) {
  const hashes = kind === null ? null : [erasedIdHash('salt', organization, kind, id)];
  const row = { organization_id: organization, until_ms: untilMs, salt: 'salt', hashes };
  const known = new Erasures({ query: async () => [row] as never, execute: async () => 0 });
  await known.refresh();
  return known;
}

test('without erasures, every record passes unchanged and its ids are not checked', () => {
  const none = new Erasures({ query: async () => [], execute: async () => 0 });
  expect(none.mayCover(1)).toBe(false);
  expect([none.click(click), none.install(install), none.event(event)]).toEqual([click, install, event]);
});

test.each([
  ['device', 'd1'],
  ['user', 'u1'],
  ['install', 'i1'],
  ['click', click.click_id],
  [null, ''],
] as const)('records that name an erased %s keep their sums and lose everything about the person', async (kind, id) => {
  const known = await erasures(kind, id);
  const text = JSON.stringify([known.install(install), known.event(event)]);
  expect(text).not.toMatch(/"(i1|d1|u1|e|s|m|192\.0\.2\.1|clk_\w+)"|who/);
  expect(known.install(install)).toMatchObject({ ...origin, link_id, campaign: 'c', country: 'DE' });
  expect(known.event(event)).toMatchObject({ ...origin, link_id, revenue_amount: '2' });
});

test('an erased click keeps its platform, link and country, and loses the rest', async () => {
  const known = await erasures('click', click.click_id);
  const blank = known.click(click);
  expect(blank).toMatchObject({ link_id, time: untilMs, campaign: 'spring', ip: '8.8.8.0', privacy_mode: 'no_ip' });
  expect(blank).toMatchObject({ click_id: '', query: '', language: '' });
  expect(blank.user_agent).toContain('iPhone');
  expect(blank.user_agent).not.toBe(click.user_agent);
});

test('records received after the erasure, or of another organization, are not blanked', async () => {
  const known = await erasures('device', 'd1');
  const later = { ...install, time: untilMs + 1 };
  expect(known.install(later)).toBe(later);
  const foreign = await erasures('device', 'd1', 'org_2');
  expect(foreign.install(install)).toBe(install);
  const sameText = await erasures('user', 'd1');
  expect(sameText.install(install)).toBe(install);
});
