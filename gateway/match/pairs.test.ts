/**
 * Test cases of device pairs and times, each with the truth: two descriptions of one phone, or of two phones. Each pair
 * is alone at its address.
 */
import { afterAll, expect, test } from 'vitest';
import { MINUTE_MS } from '#common/durations.ts';
import { decide } from '#common/match/rules.ts';
import { clickSignals, deviceSignals } from '#common/match/signals.ts';
import { userAgentCorpus } from '#common/testing/user-agent-corpus.ts';
import { devicePairs, type Pair, timeCases } from '#gateway/testing/match-pairs.ts';

const now = 1_800_000_000_000;
const settings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'full_ip' as const,
  conversion_events: [],
};

const counts = new Map<string, { right: number; wrong: number; missed: number }>();

function isMatched({ click, device, minutes = 5, deviceIp, neighbours = [] }: Pair): boolean {
  const candidate = (fields: Pair['click'], n: number, ageMinutes: number) => ({
    click_id: `c${n}`,
    app_id: 'a',
    link_id: `l${n}`,
    time: now - ageMinutes * MINUTE_MS,
    is_bot: false,
    claimed_by: '',
    signals: clickSignals(fields),
  });
  const candidates = [candidate(click, 0, minutes), ...neighbours.map((one, n) => candidate(one, n + 1, minutes + 20))];
  const decision = decide({
    app_id: 'a',
    claimant: 'd',
    device: deviceSignals(device, deviceIp ?? click.ip),
    evidence: [],
    candidates,
    settings,
    nowMs: now,
  });
  return decision.matched && decision.click.click_id === 'c0';
}

const pairs = [...devicePairs(userAgentCorpus()), ...timeCases()];

afterAll(() => {
  console.table(Object.fromEntries(counts));
});

test('there are at least 100 pairs of devices and 50 cases of times and addresses', () => {
  expect(pairs.filter(({ kind }) => kind === 'device').length).toBeGreaterThanOrEqual(100);
  expect(pairs.filter(({ kind }) => kind === 'time').length).toBeGreaterThanOrEqual(50);
});

test.each(pairs.map((pair): [string, Pair] => [`${pair.group}: ${pair.what}`, pair]))('%s', (_, pair) => {
  const matched = isMatched(pair);
  const group = counts.get(pair.group) ?? { right: 0, wrong: 0, missed: 0 };
  counts.set(pair.group, group);
  if (matched === pair.isSame) group.right++;
  else if (matched) group.wrong++;
  else group.missed++;
  // Pairs that the rules cannot recognize are listed as not found; a wrong match is never acceptable.
  expect(matched).toBe(pair.isFound ?? pair.isSame);
});
