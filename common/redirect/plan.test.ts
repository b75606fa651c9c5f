import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { clickJson } from '#common/log/click-line.ts';
import { testApp, testLink } from '#common/testing/link-snapshots.ts';
import { anyCharacter } from '#testing/any-character.ts';
import { visitorDeviceOf } from './device.ts';
import { LinkPlan } from './plan.ts';

const text = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 40 }),
  fc.string({ maxLength: 3000 }),
  fc.constant(''),
);
const ruleId = fc.constantFrom('', '0123456789abcdef');
const ip = fc.constantFrom('127.0.0.1', '2001:db8::1', '');

test('the record of a visit equals what clickJson writes, whatever the headers and the link contain', () => {
  const visitor = fc.record({
    ip,
    user_agent: text,
    language: text,
    referrer: text,
    query: text,
    is_prefetch: fc.boolean(),
  });
  const link: fc.Arbitrary<LinkSnapshot> = fc
    .record({ campaign: fc.option(text), utm_source: fc.option(text), utm_term: fc.option(text) })
    .map((some) => ({ ...testLink, ...some }));
  const app: fc.Arbitrary<LinkedApp> = fc
    .constantFrom('anonymize_ip' as const, 'full_ip' as const, 'no_ip' as const)
    .map((privacy_mode) => ({ ...testApp, privacy_mode }));
  fc.assert(
    fc.property(app, link, visitor, fc.boolean(), ruleId, (oneApp, oneLink, oneVisitor, isPreview, rule) => {
      const plan = new LinkPlan(oneApp, oneLink);
      const device = visitorDeviceOf(oneVisitor.user_agent);
      const record: Record<string, unknown> = JSON.parse(
        plan.record('clk_1', oneVisitor, device, isPreview, 1_700_000_000_000, rule),
      );
      if (record['ip'] === '') delete record['ip'];
      const expected = JSON.parse(clickJson(plan.click('clk_1', oneVisitor, isPreview, 1_700_000_000_000, rule)));
      expect(record).toEqual(expected);
    }),
  );
});

test('the record of a visit has the time, the query and the fields of this visit, each truncated as in a record', () => {
  const plan = new LinkPlan(testApp, { ...testLink, utm_source: 'own' });
  const device = visitorDeviceOf('x'.repeat(2_000));
  for (const [time, query] of [
    [1, 'utm_source=a%00b'],
    [2, 'q'.repeat(3_000)],
    [3, 'a=b'],
  ] as const) {
    const visitor = {
      ip: '127.0.0.1',
      user_agent: 'x'.repeat(2_000),
      language: 'l'.repeat(3_000),
      referrer: 'r'.repeat(3_000),
      query,
      is_prefetch: false,
    };
    expect(JSON.parse(plan.record('clk_1', visitor, device, false, time))).toEqual(
      JSON.parse(clickJson(plan.click('clk_1', visitor, false, time))),
    );
  }
  expect(
    plan.click(
      'clk_1',
      { ip: '', user_agent: '', language: '', referrer: '', query: 'utm_source=a%00b', is_prefetch: false },
      false,
      1,
    ).utm_source,
  ).toBe('ab');
});
