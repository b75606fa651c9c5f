import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import type { AppSettings, AppSnapshot } from '#common/links/app-snapshot.ts';
import { decodeMatch, type MatchDetail } from '#common/log/match-record.ts';
import { tracesOf } from '#common/match/click-traces.ts';
import { decide, type Evidence, type EvidenceType, type MatchInput, type ScoredClick } from '#common/match/rules.ts';
import { type ClickFields, clickSignals, type DeviceFields, deviceSignals } from '#common/match/signals.ts';
import { packageRoot } from '#common/process/paths.ts';
import { MatchLog } from '#gateway/match/match-log.ts';
import { explainCandidate, explainMatch } from './match-explanation.ts';

const now = Date.parse('2026-11-20T12:00:00Z');
const minute = 60_000;
const hour = HOUR_MS;
const app_id = newId('app', now);
const ip = '198.51.100.7';
const ofSafari = (version: string) =>
  `Mozilla/5.0 (iPhone; CPU iPhone OS ${version.replaceAll('.', '_')} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/${version} Mobile/15E148 Safari/604.1`;
const ofPhone = (model: string) =>
  `Mozilla/5.0 (Linux; Android 14; ${model}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36`;
const iphone: DeviceFields = { platform: 'ios', os_version: '17.5.1', device_model: 'iPhone15,2', language: 'en-US' };
const galaxy: DeviceFields = { platform: 'android', os_version: '14', device_model: 'SM-S911B', language: 'en-US' };

interface Case {
  readonly device?: DeviceFields;
  /** Each click is on its own link. */
  readonly clicks?: readonly (Partial<ClickFields> & { readonly ageMs?: number; readonly claimed_by?: string })[];
  readonly named?: { readonly type: EvidenceType; readonly ageMs?: number; readonly claimed_by?: string };
  readonly isLinkUnusable?: boolean;
  readonly settings?: Partial<AppSettings>;
}

const settingsOf = (more: Partial<AppSettings> = {}): AppSettings => ({
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'anonymize_ip',
  conversion_events: [],
  ...more,
});

/** The sentences of a case: decided by the rules, recorded by the edge, read and explained by the API. */
async function explained({
  device = iphone,
  clicks = [],
  named,
  settings,
  isLinkUnusable = false,
}: Case): Promise<string[]> {
  const given = settingsOf(settings);
  const candidates = clicks.map(({ ageMs = 30 * minute, claimed_by = '', ...fields }): ScoredClick => {
    const signals = clickSignals({ ip, user_agent: ofSafari('17.5'), language: 'en-US', ...fields });
    const [click_id, link_id] = [newId('clk', now), newId('lnk', now)];
    return { click_id, app_id, link_id, time: now - ageMs, is_bot: false, claimed_by, signals };
  });
  const click_id = newId('clk', now);
  const evidence: Evidence[] = named
    ? [
        {
          type: named.type,
          click:
            named.ageMs === undefined
              ? null
              : {
                  ...{ click_id, app_id, link_id: newId('lnk', now), time: now - named.ageMs, is_bot: false },
                  claimed_by: named.claimed_by ?? '',
                },
        },
      ]
    : [];
  const input: MatchInput = {
    ...{ app_id, claimant: 'me', device: deviceSignals(device, ip), evidence, candidates, settings: given, nowMs: now },
    isLinkUnusable,
  };
  const decision = decide(input);
  const app = { app_id, organization_id: newId('org', now), settings: given } as AppSnapshot;
  const answer = {
    ...{ match_id: newId('mat', now), app_id, query: '' },
    ...(decision.matched
      ? {
          ...{ match_type: decision.type, confidence: decision.confidence, matched_factors: decision.factors },
          ...{ competing_links: 0, click_id: decision.click.click_id, clicked_at: 0, link_id: decision.click.link_id },
        }
      : {
          ...{
            match_type: 'none' as const,
            confidence: 0,
            matched_factors: [],
            click_id: '',
            clicked_at: 0,
            link_id: '',
          },
          ...{ competing_links: decision.competing_links, reason: decision.reason },
        }),
  };
  const lines: string[] = [];
  const records = {
    isOpen: true,
    write: (_kind: string, _app: string, [record]: readonly { readonly json?: string }[]) => {
      lines.push(record?.json ?? '');
      return Promise.resolve(true);
    },
  };
  const log = new MatchLog(records as unknown as ConstructorParameters<typeof MatchLog>[0]);
  const question = {
    fields: device,
    asker: { app, ip, device: 'me', user_agent: '', install_name: null },
    startedMs: 0,
  };
  const near = clicks.map(({ user_agent = ofSafari('17.5') }, at) => ({
    ...{ click_id: candidates[at]?.click_id ?? '', link_id: '', time: 0, claimed_by: '', query: '', signals: null },
    traces: tracesOf({ user_agent, language: '' }),
  }));
  const names = named ? [{ type: named.type, click_id }] : [];
  await log.write(question, answer, { given: names, input, decision, near });
  const record = decodeMatch(lines[0] ?? '');
  if (typeof record === 'string') throw new Error(record);
  const match = { ...record, detail: JSON.parse(record.detail) as MatchDetail };
  return [explainMatch(match), ...match.detail.candidates.map((one) => explainCandidate(one, match))];
}

/** Typical refusals, which docs/matching.md shows too. */
const refusals: readonly (readonly [what: string, given: Case])[] = [
  ['No click came from that address', {}],
  ['The click is too old', { clicks: [{ ageMs: 7 * hour }] }],
  ['Another phone', { device: galaxy, clicks: [{ user_agent: ofPhone('Pixel 8') }] }],
  ['Another system', { clicks: [{ user_agent: ofPhone('Pixel 8') }] }],
  ['Another major version', { clicks: [{ user_agent: ofSafari('16.6') }] }],
  ['Another device has the click', { clicks: [{ claimed_by: 'other' }] }],
  ['Two links are equally likely', { clicks: [{ ageMs: 10 * minute }, { ageMs: 20 * minute }] }],
  ['Too little agrees', { clicks: [{ ageMs: 5 * hour, language: 'de-DE' }], settings: { min_confidence: 0.8 } }],
  ['The named click is too old', { named: { type: 'install_referrer', ageMs: 9 * 24 * hour } }],
  ['The link that opened the app is archived', { clicks: [{}], isLinkUnusable: true }],
  ['Matching without evidence is off', { settings: { probabilistic_window_hours: 0 } }],
];

test('docs/matching.md shows the typical refusals in the wording of the API', async () => {
  const docs = readFileSync(`${packageRoot()}/docs/matching.md`, 'utf8');
  const rows: string[] = [];
  for (const [what, given] of refusals) rows.push(`| ${what} | ${(await explained(given))[0]} |`);
  expect(new Set(rows).size).toBe(refusals.length);
  expect(rows.filter((row) => !docs.includes(row))).toEqual([]);
});

test.each<[Case, string[]]>([
  [
    { clicks: [{ ageMs: 10 * minute }] },
    [
      'Matched with confidence 0.95: address, OS version and language agree.',
      'Confidence 0.95 after 10 min: address, OS version and language agree.',
    ],
  ],
  [{ named: { type: 'clipboard', ageMs: minute } }, ['Matched with certainty: the clipboard named the click.']],
  [
    { named: { type: 'click_id', ageMs: minute, claimed_by: 'other' } },
    ['Refused: another device already has the click that the click id names.'],
  ],
  [
    { named: { type: 'click_id' } },
    [
      'Refused: the click that the click id names is unknown: it belongs to another app, is invented, or is older than the retention.',
    ],
  ],
  [
    { settings: { privacy_mode: 'no_ip' } },
    [
      'Refused: the device named no click, and the app stores no addresses (privacy mode no_ip), so there is nothing to compare.',
    ],
  ],
  [
    { clicks: [{ claimed_by: 'other' }, { ageMs: 7 * hour }, { ageMs: 8 * hour }] },
    [
      "Refused: none of three clicks from the device's address can be the device's: 1 already claimed by another device, 2 older than your window.",
      'Another device already has the click.',
      'The click was 7 h old, your window is 6 h.',
      'The click was 8 h old, your window is 6 h.',
    ],
  ],
])('%j is explained in words', async (given, sentences) => {
  expect(await explained(given)).toEqual(sentences);
});
