import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newId, timeOfId } from '#common/ids.ts';
import { tracesOf } from '#common/match/click-traces.ts';
import {
  addressStart,
  clickInLines,
  clicksAtAddress,
  clicksOfApp,
  lineAtAddress,
  lineById,
  type RecentClick,
  timePartOf,
} from './click-lines.ts';

const text = fc.oneof(
  fc.string(),
  fc.constantFrom('', 'ref=mail&position=2', 'a\tb', 'a\nb', '\\', '\\t', 'ünïcode', '\u0000'),
);
const clicks: fc.Arbitrary<RecentClick> = fc
  .record({
    time: fc.integer({ min: 1_700_000_000_000, max: 1_700_000_000_005 }),
    delay: fc.constantFrom(0, 0, 3, -2),
    is_bot: fc.boolean(),
    texts: fc.array(text, { minLength: 7, maxLength: 7 }),
  })
  .map(
    ({
      time,
      delay,
      is_bot,
      texts: [query, campaign, utm_source, utm_medium, utm_campaign, utm_term, utm_content],
    }) => ({
      click_id: newId('clk', time),
      app_id: newId('app', 1),
      link_id: newId('lnk', 1),
      time: time + delay,
      ...{ query: query ?? '', campaign: campaign ?? '', utm_source: utm_source ?? '', utm_medium: utm_medium ?? '' },
      ...{ utm_campaign: utm_campaign ?? '', utm_term: utm_term ?? '', utm_content: utm_content ?? '', is_bot },
    }),
  );

test('each click is found by its id among the lines of its millisecond, unchanged', () => {
  fc.assert(
    fc.property(fc.array(clicks, { maxLength: 8 }), (all) => {
      const lines = all.map((click) => lineById(click, click.is_bot)).join('');
      for (const click of all) expect(clickInLines(lines, click.click_id)).toEqual(click);
      expect(clickInLines(lines, newId('clk', 1_700_000_000_000))).toBeNull();
      for (const { click_id, app_id } of all)
        expect(clicksOfApp(lines, timePartOf(click_id), app_id)).toEqual([click_id]);
    }),
  );
});

test('clicks at an address are returned newest first, each once, with their query and traces', () => {
  const browser = { user_agent: 'Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/120.0.0.0', language: 'de-DE,de' };
  fc.assert(
    fc.property(fc.array(clicks, { maxLength: 8 }), (all) => {
      const lines = [...all, ...all].map((click) => lineAtAddress(click, browser));
      const newest = all.toSorted((a, b) => (a.click_id < b.click_id ? 1 : -1)).slice(0, 5);
      const wanted = newest.map(({ click_id, link_id, time, query }) => {
        return { click_id, link_id, time, query, traces: tracesOf(browser) };
      });
      expect(clicksAtAddress(lines.join(''), 5)).toEqual(wanted);
    }),
  );
});

test('lines at an address sort by the time of their clicks', () => {
  const ids = [5, 3, 9, 1].map((second) => newId('clk', 1_700_000_000_000 + second * 1_000));
  const sorted = ids.toSorted((a, b) => (addressStart(a) < addressStart(b) ? -1 : 1));
  expect(sorted.map(timeOfId)).toEqual(ids.map(timeOfId).sort());
});
