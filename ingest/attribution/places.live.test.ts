import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { campaignFrom } from '#common/campaign-fields.ts';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { eventJson, eventPrefix, extrasJson } from '#common/log/event-record.ts';
import { installJson, installTextMax } from '#common/log/install-record.ts';
import type { PrivacyMode, RecordKind } from '#common/log/record.ts';
import { PipelineHarness } from '#ingest/testing/pipeline-harness.ts';
import { cityData, mmdbFile } from '#testing/mmdb-file.ts';

const [organization_id, app_id, link_id] = [newId('org', 1), newId('app', 1), newId('lnk', 1)];
const munich = { country: 'DE', region: 'DE-BY', city: 'Munich' };
const paris = { country: 'FR', region: 'FR-IDF', city: 'Paris' };
const inGermany = { country: 'DE', region: '', city: '' };
let way: PipelineHarness;

beforeAll(async () => {
  way = await PipelineHarness.start();
  const file = join(way.folder, 'city.mmdb');
  writeFileSync(
    file,
    mmdbFile({
      '203.0.113.0/24': cityData('DE', { iso_code: 'BY', name: 'Bavaria' }, 'Munich'),
      '198.51.100.0/24': cityData('FR', { iso_code: 'IDF', name: 'Île-de-France' }, 'Paris'),
      '192.0.2.0/24': { country: { iso_code: 'DE' } },
    }),
  );
  way.more = { GEOIP_DB: file };
});
afterEach(() => way.stopIngests());
afterAll(() => way.stop());

function click(ip: string, privacy_mode: PrivacyMode): string {
  return clickJson({
    ...{ click_id: newId('clk', Date.now()), organization_id, app_id, link_id, time: Date.now(), ip, privacy_mode },
    ...{ user_agent: 'Mozilla/5.0 (iPhone)', language: '', referrer: '', query: '', trigger: 'link', rule: '' },
    ...{ ...campaignFrom(() => ''), is_prefetch: false, is_preview: false },
  });
}

function install(device_id: string, ip: string): string {
  const time = Date.now();
  const none = Object.fromEntries(Object.keys(installTextMax).map((name) => [name, '']));
  return installJson({
    ...(none as Record<keyof typeof installTextMax, string>),
    ...{ install_id: `ins ${device_id}`, organization_id, app_id, link_id, device_id, ip, time, installed_at: time },
    ...{ match_type: 'none', match_guaranteed: false, confidence: 0, attributed: false, trigger: 'install' },
    ...{ platform: 'ios', privacy_mode: 'anonymize_ip', properties: '' },
  });
}

function event(event_id: string, device_id: string, ip: string, device_ip = ''): string {
  const time = Date.now();
  const origin = { organization_id, app_id, received_at: time, ip, privacy_mode: 'full_ip' as const };
  const linkFields = extrasJson({ device_ip, aliases: [], utm: {} }, 'full_ip');
  const money = { revenue_amount: '', revenue_currency: '', is_conversion: false };
  const decision = { event_id, time, ...money, is_id_made: false, linkFields };
  return eventJson(eventPrefix({ ...origin, defaults: {} }), decision, JSON.stringify({ name: 'open', device_id }));
}

async function append(kind: RecordKind, lines: readonly string[]): Promise<void> {
  await Promise.all(
    lines.map(
      (json) =>
        new Promise<void>((committed, fail) => {
          way.journal.append(way.journal.lane(kind, 0), json, { committed, refused: () => fail(new Error('refused')) });
        }),
    ),
  );
}

const rows = <Row>(sql: string) => way.client.query<Row>(sql, {});
const eventually = (read: () => Promise<unknown>) => expect.poll(read, { timeout: 60_000, interval: 200 });
const count = async (table: string) => Number((await rows<{ n: number }>(`SELECT sum(1) AS n FROM ${table}`))[0]?.n);

test('clicks, installs and events get the region and city from the configured database, in every privacy mode', async () => {
  const ingest = way.ingest();
  await append('click', [
    click('203.0.113.7', 'full_ip'),
    click('203.0.113.0', 'no_ip'),
    click('198.51.100.0', 'anonymize_ip'),
    click('192.0.2.0', 'anonymize_ip'),
    click('8.8.8.8', 'full_ip'),
  ]);
  await append('install', [install('d1', '203.0.113.7'), install('d2', '192.0.2.7')]);
  await eventually(() => count('clicks')).toBe(5);
  await eventually(() => count('installs')).toBe(2);
  const nowhere = { country: '', region: '', city: '' };
  const place = 'country, region, city';
  expect(await rows(`SELECT ip, ${place} FROM clicks ORDER BY ip, country, region`)).toEqual([
    { ip: '', ...munich },
    { ip: '192.0.2.0', ...inGermany },
    { ip: '198.51.100.0', ...paris },
    { ip: '203.0.113.7', ...munich },
    { ip: '8.8.8.8', ...nowhere },
  ]);
  expect(await rows(`SELECT device_id, ${place} FROM installs ORDER BY device_id`)).toEqual([
    { device_id: 'd1', ...munich },
    { device_id: 'd2', ...inGermany },
  ]);
  await append('event', [
    event('own', 'd1', '8.8.8.8', '198.51.100.7'),
    event('installed', 'd1', '198.51.100.7'),
    event('without city', 'd2', '198.51.100.7'),
    event('sender', 'd9', '198.51.100.7'),
  ]);
  await eventually(() => count('events')).toBe(4);
  expect(await rows(`SELECT event_id, ${place} FROM events ORDER BY event_id`)).toEqual([
    { event_id: 'installed', ...munich },
    { event_id: 'own', ...paris },
    { event_id: 'sender', ...paris },
    // The location comes from one address; the country and the city never come from different ones.
    { event_id: 'without city', ...inGermany },
  ]);
  await ingest.stop();
}, 120_000);

test('an event that arrived before its install gets the city of the install, unless it has its own location', {
  tags: ['slow'],
  timeout: 120_000,
}, async () => {
  const ingest = way.ingest();
  await append('event', [event('late', 'd5', '198.51.100.7'), event('late own', 'd5', '8.8.8.8', '198.51.100.7')]);
  await eventually(() => count("events WHERE device_id = 'd5'")).toBe(2);
  await append('install', [install('d5', '203.0.113.7')]);
  await eventually(() => count("events WHERE device_id = 'd5'")).toBe(6);
  const sums = `SELECT event_id, country, region, city FROM events WHERE device_id = 'd5'
    GROUP BY event_id, country, region, city HAVING sum(sign) > 0 ORDER BY event_id`;
  expect(await rows(sums)).toEqual([
    { event_id: 'late', ...munich },
    { event_id: 'late own', ...paris },
  ]);
  await ingest.stop();
});
