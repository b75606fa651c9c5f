import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { propertyRuns } from '#testing/property-runs.ts';
import { crowdPart } from './crowd.ts';
import {
  type CandidateClick,
  decayOf,
  decide,
  type Gate,
  type MatchDecision,
  type MatchInput,
  type NoMatchReason,
  type ScoredClick,
  scoreOf,
} from './rules.ts';
import type { Signals } from './signals.ts';

const now = 1_800_000_000_000;
const settings = {
  attribution_window_hours: 168,
  probabilistic_window_hours: 6,
  min_confidence: 0.6,
  privacy_mode: 'full_ip' as const,
  conversion_events: [],
};

const device: Signals = {
  family: 'ios',
  maybeIpad: false,
  ip: '203.0.113.9',
  os_version: [17, 5, 1],
  os_version_min: [],
  device_model: 'iphone15,2',
  language: ['en', 'us'],
  more_languages: [],
  timezone: 'Europe/Paris',
  screens: [[393, 852]],
};

function click(more: Partial<ScoredClick> = {}): ScoredClick {
  return {
    click_id: 'c1',
    app_id: 'a',
    link_id: 'l1',
    time: now - 60_000,
    is_bot: false,
    claimed_by: '',
    signals: device,
    ...more,
  };
}

function decided(more: Partial<MatchInput> = {}): MatchDecision {
  return decide({ app_id: 'a', claimant: 'd1', device, evidence: [], candidates: [], settings, nowMs: now, ...more });
}

const named = (more: Partial<CandidateClick> = {}): CandidateClick => click(more);

test('evidence counts in its order, and the first that is valid wins', () => {
  const evidence = [
    { type: 'click_id' as const, click: null },
    { type: 'install_referrer' as const, click: named({ claimed_by: 'd2' }) },
    { type: 'clipboard' as const, click: named({ click_id: 'c3' }) },
  ];
  expect(decided({ evidence, candidates: [click()] })).toMatchObject({
    matched: true,
    type: 'clipboard',
    click: { click_id: 'c3' },
    confidence: 1,
  });
});

test.each<[string, Partial<CandidateClick>, boolean]>([
  ['valid', {}, true],
  ['of another app', { app_id: 'b' }, false],
  ['at the end of the window', { time: now - 168 * HOUR_MS }, true],
  ['behind the window', { time: now - 168 * HOUR_MS - 1 }, false],
  ['claimed by the same device', { claimed_by: 'd1' }, true],
  ['claimed by another', { claimed_by: 'd2' }, false],
  ['of a bot, but named', { is_bot: true }, true],
])('a named click that is %s', (_, more, expected) => {
  expect(decided({ evidence: [{ type: 'click_id', click: named(more) }] }).matched).toBe(expected);
});

test.each<[string, Partial<ScoredClick>, boolean]>([
  ['like the device', {}, true],
  ['of another app', { app_id: 'b' }, false],
  ['of another platform', { signals: { ...device, family: 'android' } }, false],
  ['of a bot', { is_bot: true }, false],
  ['claimed', { claimed_by: 'd2' }, false],
  ['behind the window', { time: now - 6 * HOUR_MS - 1 }, false],
  ['of the future', { time: now + 60_000 }, false],
  ['of another major version', { signals: { ...device, os_version: [16] } }, false],
  ['of another address, else the same: just below 0.6', { signals: { ...device, ip: '203.0.113.10' } }, false],
  [
    'of another address, and little known',
    { signals: { ...device, ip: '203.0.113.10', timezone: '', screens: [] } },
    false,
  ],
])('a click %s', (_, more, expected) => {
  expect(decided({ candidates: [click(more)] }).matched).toBe(expected);
});

test('without the address, four other signals are required', () => {
  const lenient = { ...settings, min_confidence: 0.3 };
  const elsewhere = (more: Partial<Signals>) =>
    decided({ candidates: [click({ signals: { ...device, ip: '', ...more } })], settings: lenient });
  expect(elsewhere({ timezone: '' }).matched).toBe(true);
  expect(elsewhere({ timezone: '', screens: [] }).matched).toBe(false);
});

test('a window of 0 turns scoring off', () => {
  expect(decided({ candidates: [click()], settings: { ...settings, probabilistic_window_hours: 0 } }).matched).toBe(
    false,
  );
});

test('the confidence is what agrees of what both sides know, times the decay, at most 0.95', () => {
  const of = (signals: Partial<Signals>, ageMs: number) =>
    scoreOf(device, { signals: { ...device, ...signals }, time: now - ageMs }, now, 6 * HOUR_MS, 1)?.confidence;
  expect(of({}, 0)).toBe(0.95);
  expect(of({ os_version: [17, 4] }, 0)).toBe(0.85);
  expect(of({ ip: '1.2.3.4' }, 0)).toBe(0.6);
  expect(of({ timezone: '', screens: [], device_model: '', language: ['fr', 'fr'] }, 0)).toBe(0.8571);
  expect(of({}, 1.5 * HOUR_MS)).toBe(0.8888);
  expect([0, HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS, 2 * HOUR_MS + 1, 6 * HOUR_MS, 6 * HOUR_MS + 1].map(decayOf)).toEqual([
    1, 1, 0.9, 0.9, 0.75, 0.75, 0.6,
  ]);
});

test('two links within 0.10 match nothing; clicks of one link are not ambiguous, and the newest wins', () => {
  const other = click({ click_id: 'c2', link_id: 'l2', time: now - 120_000 });
  expect(decided({ candidates: [click(), other] })).toMatchObject({
    matched: false,
    reason: 'ambiguous',
    competing_links: 2,
  });
  const weaker = click({
    click_id: 'c2',
    link_id: 'l2',
    signals: { ...device, language: ['fr', 'fr'], os_version: [17, 4] },
  });
  expect(decided({ candidates: [click(), weaker] })).toMatchObject({ matched: true, click: { click_id: 'c1' } });
  const older = click({ click_id: 'c0', time: now - 50 * 60_000 });
  expect(decided({ candidates: [older, click()] })).toMatchObject({ matched: true, click: { click_id: 'c1' } });
});

test('many different devices at one address reduce its weight', () => {
  const crowd = Array.from({ length: 20 }, (_, n) =>
    click({
      click_id: `c${n}`,
      link_id: 'l2',
      signals: { ...device, os_version: [16, n], timezone: '', screens: [], device_model: '' },
    }),
  );
  const mine = click({ signals: { ...device, timezone: '', screens: [], device_model: '' } });
  expect(crowdPart(device, [mine])).toBe(1);
  expect(crowdPart({ ...device, os_version: [17, 4] }, [mine])).toBe(0.5);
  expect(decided({ candidates: [mine] }).matched).toBe(true);
  expect(decided({ candidates: [mine, ...crowd] }).matched).toBe(false);
});

test('clicks that are too old to be matched do not count as a crowd', () => {
  const little = { ...device, timezone: '', screens: [], device_model: '' };
  const gone = Array.from({ length: 20 }, (_, n) =>
    click({ click_id: `c${n}`, link_id: 'l2', time: now - 7 * HOUR_MS, signals: { ...little, os_version: [16, n] } }),
  );
  expect(decided({ candidates: [click({ signals: little }), ...gone] }).matched).toBe(true);
});

test('the requesting device counts among those behind an address: a click of a later version is not its own', () => {
  const other = { ...device, os_version: [17, 6], timezone: '', screens: [], device_model: '' };
  expect(decided({ candidates: [click({ signals: other })] }).matched).toBe(false);
  expect(decided({ candidates: [click({ signals: { ...other, os_version: [17, 5] } })] }).matched).toBe(true);
});

test.each<[string, Partial<Signals>, boolean]>([
  ['a minor update between click and open', { os_version: [17, 4] }, true],
  ['a patch between click and open', { os_version: [17, 5, 0] }, true],
  ['an app that exists in another language only', { language: ['de', 'de'] }, true],
  ['a major version that differs', { os_version: [16] }, false],
  ['another model', { device_model: 'iphone14,5' }, false],
])('%s decides a single match correctly', (_, more, expected) => {
  const signals = { ...device, device_model: 'iphone', timezone: '', screens: [], ...more };
  expect(decided({ candidates: [click({ signals, time: now - 30 * 60_000 })] }).matched).toBe(expected);
});

test.each<[string, Partial<Signals>, Partial<Signals>, Gate | null]>([
  ['is later than the device’s', { os_version: [17, 5] }, { os_version: [], os_version_min: [18, 6] }, 'os_version'],
  ['may be the device’s', { os_version: [18, 6, 2] }, { os_version: [], os_version_min: [18, 6] }, null],
  [
    'may be the device’s, and is far from it',
    { os_version: [26, 1] },
    { os_version: [], os_version_min: [18, 6] },
    null,
  ],
  ['the device hides in turn', { os_version: [], os_version_min: [18, 7] }, { os_version: [26, 2] }, null],
  ['the device has left behind', { os_version: [], os_version_min: [18, 7] }, { os_version: [17, 1] }, 'os_version'],
])('a version that a frozen user agent hides excludes only impossible matches: one that %s', (_, asker, of, gate) => {
  const { judged } = decided({
    device: { ...device, ...asker },
    candidates: [click({ signals: { ...device, ...of } })],
  });
  expect(judged[0]?.gate).toBe(gate);
});

test.each<[string, number, Partial<ScoredClick>[], boolean]>([
  ['fresh, and no other device was seen', 60_000, [], true],
  ['older than an hour', 1.1 * HOUR_MS, [], false],
  ['fresh, and another device was seen', 60_000, [{ signals: { ...device, family: 'ios', os_version: [16] } }], false],
])('a click that reveals nothing of its device but a language, %s', (_, ageMs, others, expected) => {
  const phone: Signals = { ...device, family: 'android', os_version: [14], device_model: 'pixel 8' };
  const faceless: Signals = { ...phone, os_version: [], device_model: '', timezone: '', screens: [] };
  const mine = click({ signals: faceless, time: now - ageMs });
  const crowd = others.map((more, n) => click({ click_id: `o${n}`, link_id: `o${n}`, ...more }));
  expect(decided({ device: phone, candidates: [mine, ...crowd] }).matched).toBe(expected);
});

const signals: fc.Arbitrary<Signals> = fc.record({
  family: fc.constantFrom('ios' as const, 'android' as const),
  maybeIpad: fc.boolean(),
  ip: fc.constantFrom('', '203.0.113.9', '203.0.113.10', '172.224.226.4'),
  os_version: fc.constantFrom([], [17], [17, 5], [17, 4, 1], [16, 1]),
  os_version_min: fc.constant([]),
  device_model: fc.constantFrom('', 'iphone', 'iphone15,2', 'ipad13,4', 'pixel 8'),
  language: fc.constantFrom<readonly [string, string]>(['', ''], ['en', 'us'], ['en', 'gb'], ['de', '']),
  more_languages: fc.constantFrom([], ['en'], ['de', 'fr']),
  timezone: fc.constantFrom('', 'Europe/Paris', 'Asia/Tokyo'),
  screens: fc.constantFrom<Signals['screens']>([], [[393, 852]], [[360, 800]]),
});
const age = fc.integer({ min: 0, max: 6 * HOUR_MS });
const confidence = (a: Signals, b: Signals, ageMs: number, crowd = 1) =>
  scoreOf(a, { signals: b, time: now - ageMs }, now, 6 * HOUR_MS, crowd)?.confidence ?? 0;

test('no confidence is above 0.95 or below 0', () => {
  fc.assert(
    fc.property(signals, signals, age, fc.double({ min: 0, max: 1, noNaN: true }), (a, b, ageMs, crowd) => {
      const value = confidence(a, b, ageMs, crowd);
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(0.95);
    }),
  );
});

test('an agreement never lowers the confidence, a disagreement never raises it', () => {
  const made: [keyof Signals, unknown, unknown][] = [
    ['ip', '198.51.100.1', '198.51.100.2'],
    ['os_version', [17, 9], [17, 8]],
    ['device_model', 'iphone16,1', 'iphone16,2'],
    ['language', ['fr', 'fr'], ['it', 'it']],
    ['timezone', 'Europe/Rome', 'Asia/Seoul'],
    ['screens', [[1, 2]], [[100, 200]]],
  ];
  fc.assert(
    fc.property(signals, signals, age, fc.constantFrom(...made), (a, b, ageMs, [name, same, other]) => {
      const agreeing = confidence({ ...a, [name]: same }, { ...b, [name]: same }, ageMs);
      const disagreeing = confidence({ ...a, [name]: same }, { ...b, [name]: other }, ageMs);
      const unknown = confidence(
        { ...a, [name]: same },
        { ...b, [name]: name === 'language' ? ['', ''] : name === 'os_version' || name === 'screens' ? [] : '' },
        ageMs,
      );
      expect(agreeing).toBeGreaterThanOrEqual(disagreeing);
      expect(agreeing).toBeGreaterThanOrEqual(unknown);
    }),
  );
});

test('a younger click is never less likely', () => {
  fc.assert(
    fc.property(signals, signals, age, age, (a, b, one, two) => {
      expect(confidence(a, b, Math.min(one, two))).toBeGreaterThanOrEqual(confidence(a, b, Math.max(one, two)));
    }),
  );
});

test('the score is symmetric, and does not depend on other fields of a click', () => {
  fc.assert(
    fc.property(signals, signals, age, (a, b, ageMs) => {
      expect(confidence(a, b, ageMs)).toBe(confidence({ ...b, ip: b.ip }, { ...a, ip: a.ip }, ageMs));
      const one = decided({ device: a, candidates: [click({ signals: b, time: now - ageMs })] });
      const two = decided({
        device: a,
        claimant: 'another-device',
        candidates: [click({ signals: b, time: now - ageMs, click_id: 'other', link_id: 'other' })],
      });
      expect(one.matched).toBe(two.matched);
    }),
  );
});

test('an ambiguous pair is never matched, whatever its order', () => {
  const clicks = fc.array(fc.record({ signals, link: fc.integer({ min: 1, max: 3 }), ageMs: age }), { maxLength: 8 });
  fc.assert(
    fc.property(signals, clicks, (asking, found) => {
      const candidates = found.map(({ signals: of, link, ageMs }, n) =>
        click({ click_id: `c${n}`, link_id: `l${link}`, signals: of, time: now - ageMs }),
      );
      const decision = decided({ device: asking, candidates });
      expect(decided({ device: asking, candidates: candidates.toReversed() }).matched).toBe(decision.matched);
      if (!decision.matched || decision.type !== 'probabilistic') return;
      const crowd = crowdPart(asking, candidates);
      for (const one of candidates) {
        if (one.link_id === decision.click.link_id) continue;
        if (decision.judged.find(({ click: { click_id } }) => click_id === one.click_id)?.gate !== null) continue;
        expect(decision.confidence - confidence(asking, one.signals, now - one.time, crowd)).toBeGreaterThan(0.1);
      }
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('of several clicks of a link the best one counts, whatever their order', () => {
  const poor = click({
    click_id: 'c0',
    time: now,
    signals: { ...device, timezone: 'Asia/Tokyo', language: ['en', 'gb'] },
  });
  for (const candidates of [
    [poor, click()],
    [click(), poor],
  ])
    expect(decided({ candidates })).toMatchObject({ matched: true, click: { click_id: 'c1' }, confidence: 0.95 });
});

test('two links exactly 0.10 apart compete', () => {
  const other = click({
    click_id: 'c2',
    link_id: 'l2',
    time: now,
    signals: { ...device, timezone: 'Asia/Tokyo', language: ['en', 'gb'] },
  });
  expect(decided({ candidates: [click(), other] })).toMatchObject({
    matched: false,
    reason: 'ambiguous',
    competing_links: 2,
  });
});

test('a click may be up to five seconds ahead of the device, for clocks that differ', () => {
  expect(decided({ candidates: [click({ time: now + 5_000 })] }).matched).toBe(true);
  expect(decided({ candidates: [click({ time: now + 5_001 })] }).matched).toBe(false);
});

test.each<[string, Partial<ScoredClick>, Gate | null]>([
  ['is scored', {}, null],
  ['is of another app', { app_id: 'b' }, 'app'],
  ['is a bot’s', { is_bot: true }, 'bot'],
  ['is claimed', { claimed_by: 'd2' }, 'claimed'],
  ['comes from the future', { time: now + 60_000 }, 'future'],
  ['is older than the window', { time: now - 7 * HOUR_MS }, 'window'],
  ['is of another platform', { signals: { ...device, family: 'android' } }, 'platform'],
  ['is of another major version', { signals: { ...device, os_version: [16] } }, 'os_version'],
  ['is another phone’s', { signals: { ...device, device_model: 'iphone14,5' } }, 'device_model'],
  [
    'has too little in common',
    { signals: { ...device, ip: '203.0.113.10', timezone: '', screens: [] } },
    'little_in_common',
  ],
])('the decision says for each candidate what excluded it: one that %s', (_, more, gate) => {
  const { judged } = decided({ candidates: [click(more), click({ click_id: 'c2' })] });
  expect(judged.map((one) => one.gate)).toEqual([gate, null]);
});

test('the decision carries the points of each factor, and they add up to the confidence', () => {
  const decision = decided({
    candidates: [click({ signals: { ...device, os_version: [17, 9], language: ['fr', 'fr'] }, time: now })],
  });
  const [one] = decision.judged;
  expect(one?.factors).toContainEqual({ factor: 'ip', agreement: 1, points: 20, of: 40 });
  expect(one?.factors).toContainEqual({ factor: 'language', agreement: 0, points: 0, of: 10 });
  const sum = (name: 'points' | 'of') => one?.factors.reduce((total, factor) => total + factor[name], 0) ?? 0;
  expect(one?.confidence).toBeCloseTo(sum('points') / sum('of'), 3);
});

test.each<[NoMatchReason, Partial<MatchInput>]>([
  ['off', { candidates: [click()], settings: { ...settings, probabilistic_window_hours: 0 } }],
  ['no_candidates', {}],
  ['gated', { candidates: [click({ is_bot: true })] }],
  ['low_confidence', { candidates: [click()], settings: { ...settings, min_confidence: 0.96 } }],
  ['ambiguous', { candidates: [click(), click({ click_id: 'c2', link_id: 'l2' })] }],
  // Each of these has a click that could match by score.
  ['click_unknown', { candidates: [click()], evidence: [{ type: 'click_id', click: null }] }],
  ['click_unknown', { candidates: [click()], evidence: [{ type: 'clipboard', click: named({ app_id: 'b' }) }] }],
  ['click_claimed', { candidates: [click()], evidence: [{ type: 'click_id', click: named({ claimed_by: 'd2' }) }] }],
  ['click_expired', { candidates: [click()], evidence: [{ type: 'click_id', click: named({ time: 0 }) }] }],
  ['link_unknown', { candidates: [click()], isLinkUnusable: true }],
])('a device that gets no click gets the reason: %s', (reason, more) => {
  expect(decided(more)).toMatchObject({ matched: false, reason });
});

/** Models of which no phone has two. */
const models = fc.constantFrom('iphone15,2', 'iphone14,5', 'iphone 15', 'sm-s911b', 'pixel 8', 'galaxy a54', 'cph2449');

test('a click of another model is never matched, whatever else agrees', () => {
  fc.assert(
    fc.property(signals, models, models, age, (like, one, other, ageMs) => {
      fc.pre(one !== other);
      const asker = { ...like, device_model: one, ip: '203.0.113.9' };
      const of = { ...like, device_model: other, ip: '203.0.113.9' };
      const decision = decided({
        device: asker,
        candidates: [click({ signals: of, time: now - ageMs })],
        settings: { ...settings, min_confidence: 0 },
      });
      expect(decision.matched).toBe(false);
      expect(decision.judged[0]?.gate).not.toBeNull();
    }),
  );
});

const unknowns: Partial<Signals>[] = [
  { os_version: [], os_version_min: [] },
  { device_model: '' },
  { language: ['', ''], more_languages: [] },
  { timezone: '' },
  { screens: [] },
];

test('a signal that a click lacks never excludes it', () => {
  fc.assert(
    fc.property(signals, signals, fc.subarray(unknowns), (a, b, left) => {
      const gateOf = (of: Signals) =>
        decided({ device: a, candidates: [click({ signals: of })], settings: { ...settings, min_confidence: 0 } })
          .judged[0]?.gate;
      const before = gateOf(b);
      const after = gateOf(Object.assign({ ...b }, ...left));
      if (before === null) expect([null, 'little_in_common']).toContain(after);
      if (left.includes(unknowns[0] as Partial<Signals>)) expect(after).not.toBe('os_version');
      if (left.includes(unknowns[1] as Partial<Signals>)) expect(after).not.toBe('device_model');
    }),
  );
});

test('a click that agrees in more is never less likely, even in a crowd', () => {
  const agreeing: [keyof Signals, unknown][] = [
    ['os_version', [17, 5]],
    ['device_model', 'iphone15,2'],
    ['language', ['en', 'us']],
    ['timezone', 'Europe/Paris'],
    ['screens', [[393, 852]]],
  ];
  const crowd = fc.array(signals, { maxLength: 5 });
  fc.assert(
    fc.property(signals, crowd, age, fc.constantFrom(...agreeing), (of, others, ageMs, [name, value]) => {
      const chance = (mine: Signals) =>
        decided({
          candidates: [
            click({ signals: { ...mine, family: 'ios' }, time: now - ageMs }),
            ...others.map((one, n) => click({ click_id: `o${n}`, link_id: `o${n}`, signals: one })),
          ],
          settings: { ...settings, min_confidence: 0 },
        }).judged[0]?.confidence ?? 0;
      expect(chance({ ...of, [name]: value })).toBeGreaterThanOrEqual(chance(of));
    }),
    { numRuns: propertyRuns(500) },
  );
});
