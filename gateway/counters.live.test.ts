import { afterAll, beforeAll, expect, test } from 'vitest';
import { SdkEdge } from './testing/sdk-edge.ts';

let edge: SdkEdge;
beforeAll(async () => {
  edge = await SdkEdge.start();
});
afterAll(() => edge.stop());

test('/metrics counts matches by type, installs and events by outcome, and what the journal accepted', async () => {
  const { app_id, key, host } = await edge.app();
  await edge.link(app_id, 'summer');
  await edge.post('/sdk/match', key, { platform: 'ios', device_id: 'd1', url: `https://${host}/summer` });
  await edge.post('/sdk/match', key, { platform: 'ios', device_id: 'd2' });
  await edge.post('/sdk/install', key, { platform: 'ios', device_id: 'd3' });
  await edge.post('/sdk/install', key, { platform: 'ios', device_id: 'd3' });
  const event = { name: 'seen', event_id: 'e1', user_id: 'u1' };
  await edge.post('/sdk/events', key, { events: [event, event, { name: 'nobody' }] });
  const shown = (await edge.metrics.metrics())
    .replaceAll(',process="test"', '')
    .replaceAll('process="test"', '')
    .split('\n');
  expect(shown).toEqual(
    expect.arrayContaining([
      'signpost_gateway_matches_total{match_type="url"} 1',
      'signpost_gateway_matches_total{match_type="none"} 2',
      'signpost_gateway_matches_total{match_type="probabilistic"} 0',
      'signpost_gateway_opens_total{trigger="deep_link"} 1',
      'signpost_gateway_opens_total{trigger="reengagement"} 0',
      'signpost_gateway_installs_total{outcome="organic"} 1',
      'signpost_gateway_installs_total{outcome="duplicates"} 1',
      'signpost_gateway_events_total{outcome="accepted"} 1',
      'signpost_gateway_events_total{outcome="duplicates"} 1',
      'signpost_gateway_events_total{outcome="rejected"} 1',
      'signpost_gateway_event_batches_refused_total{} 0',
      // One click, one opening, one install, one event and three matches.
      'signpost_gateway_journal_total{what="records"} 7',
    ]),
  );
  expect(shown.some((line) => /^signpost_gateway_journal_bytes\{\} [1-9]/.test(line))).toBe(true);
});
