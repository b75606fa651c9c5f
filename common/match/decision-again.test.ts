import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import type { MatchDetail } from '#common/log/match-record.ts';
import { decideAgain } from './decision-again.ts';
import { decideByScore, type MatchInput, type ScoredClick } from './rules.ts';
import { networkKindOf } from './shared-address.ts';
import { clickSignals, deviceSignals } from './signals.ts';

const now = 1_790_000_000_000;
const agents = [
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36',
];
const addresses = ['203.0.113.9', '10.1.2.3', '100.64.3.4', '2001:db8:1:2::3', '2a02:26f7:1:2::3'];
const someClick = fc.record({
  agent: fc.constantFrom(...agents),
  language: fc.constantFrom('en-US', 'de-DE', ''),
  link_id: fc.constantFrom('l1', 'l2', 'l3'),
  ageMs: fc.integer({ min: 0, max: 7 * HOUR_MS }),
});

test('a decision recomputed from its record is the original decision, under the same settings and under a smaller window', () => {
  fc.assert(
    fc.property(
      fc.array(someClick, { maxLength: 8 }),
      fc.constantFrom(...addresses),
      fc.constantFrom('ios', 'android'),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom(0.3, 0.6, 0.9),
      (clicks, ip, platform, window_hours, min_confidence) => {
        const settings = {
          ...{ attribution_window_hours: 168, probabilistic_window_hours: 6, min_confidence: 0.6 },
          ...{ privacy_mode: 'full_ip' as const, conversion_events: [] },
        };
        const device = deviceSignals(
          { platform, os_version: platform === 'ios' ? '17.5' : '14', language: 'en-US' },
          ip,
        );
        const candidates = clicks.map(({ agent, language, link_id, ageMs }, n): ScoredClick => {
          const signals = clickSignals({ ip, user_agent: agent, language });
          return { click_id: `c${n}`, app_id: 'a', link_id, time: now - ageMs, is_bot: false, claimed_by: '', signals };
        });
        const input: MatchInput = {
          app_id: 'a',
          claimant: 'd',
          device,
          evidence: [],
          candidates,
          settings,
          nowMs: now,
        };
        const kept = ({ ip: _, ...signals }: typeof device) => signals;
        const detail: MatchDetail = {
          ...{ settings, device: kept(device), network: networkKindOf(device.ip), evidence: [] },
          candidates: decideByScore(input).judged.map(({ click, gate, confidence }) => ({
            ...{ click_id: click.click_id, link_id: click.link_id, age_ms: now - click.time, browser: '' },
            ...{ signals: kept(click.signals), gate, confidence, factors: [] },
          })),
          candidates_total: candidates.length,
        };
        for (const other of [{}, { min_confidence }, { window_hours, min_confidence }]) {
          const wanted = decideByScore({
            ...input,
            settings: {
              ...settings,
              ...(other.window_hours === undefined ? {} : { probabilistic_window_hours: other.window_hours }),
              ...(other.min_confidence === undefined ? {} : { min_confidence: other.min_confidence }),
            },
          });
          expect(decideAgain(detail, other)).toEqual(
            wanted.matched
              ? { state: 'matched', link_id: wanted.click.link_id, confidence: wanted.confidence }
              : { state: 'refused' },
          );
        }
      },
    ),
  );
});

test('the result of a wider window is reported as unknown', () => {
  const settings = {
    attribution_window_hours: 1,
    probabilistic_window_hours: 6,
    min_confidence: 0.6,
    privacy_mode: 'full_ip',
  } as const;
  const detail: MatchDetail = {
    settings,
    device: {},
    network: 'many',
    evidence: [],
    candidates: [],
    candidates_total: 0,
  };
  expect(decideAgain(detail, { window_hours: 12 })).toEqual({ state: 'unknown' });
  expect(decideAgain({ ...detail, candidates_total: 11 }, { window_hours: 3 })).toEqual({ state: 'unknown' });
});
