import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AppSnapshot, LinkSnapshot } from '#common/link-snapshot.ts';
import { clickJson } from '#common/log/record.ts';
import { deviceOf } from './device.ts';
import { LinkPlan } from './plan.ts';
import { testApp, testLink } from './test-snapshots.ts';

const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.string({ maxLength: 3000 }), fc.constant(''));
const ip = fc.constantFrom('127.0.0.1', '2001:db8::1', '');

test('the record of a visit is the one that clickJson writes, whatever the headers and the link say', () => {
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
  const app: fc.Arbitrary<AppSnapshot> = fc
    .constantFrom('anonymize_ip' as const, 'full_ip' as const, 'no_ip' as const)
    .map((privacy_mode) => ({ ...testApp, privacy_mode }));
  fc.assert(
    fc.property(app, link, visitor, fc.boolean(), (oneApp, oneLink, oneVisitor, isPreview) => {
      const plan = new LinkPlan(oneApp, oneLink);
      const device = deviceOf(oneVisitor.user_agent);
      const record: Record<string, unknown> = JSON.parse(
        plan.record('clk_1', oneVisitor, device, isPreview, 1_700_000_000_000),
      );
      if (record['ip'] === '') delete record['ip'];
      const expected = JSON.parse(clickJson(plan.click('clk_1', oneVisitor, isPreview, 1_700_000_000_000)));
      expect(record).toEqual(expected);
    }),
  );
});
