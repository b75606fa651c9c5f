import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { clickJson } from '#common/log/click-line.ts';
import { type Click, clickTextMax } from '#common/log/record.ts';
import { anyCharacter } from '#testing/any-character.ts';
import { propertyRuns } from '#testing/property-runs.ts';
import { decodeClick, isRejection, rejectionReasons } from './record-decoder.ts';

const click: Click = {
  click_id: newId('clk', 1),
  organization_id: newId('org', 1),
  app_id: newId('app', 1),
  link_id: newId('lnk', 1),
  time: Date.UTC(2026, 0, 31),
  ip: '2001:db8::1',
  privacy_mode: 'anonymize_ip',
  user_agent: 'x',
  language: 'de',
  referrer: '',
  query: 'a=b',
  campaign: 'ü',
  utm_source: '',
  utm_medium: '',
  utm_campaign: '',
  utm_term: '',
  utm_content: '',
  trigger: 'link',
  rule: '0123456789abcdef',
  is_prefetch: true,
  is_preview: false,
};

const goodText = (max: number) =>
  fc.string({ unit: anyCharacter, maxLength: max }).filter((text) => text.length <= max && !text.includes('\0'));

test('every click that the edge can write decodes to the same click', () => {
  fc.assert(
    fc.property(
      goodText(200),
      goodText(200),
      goodText(200),
      fc.boolean(),
      (user_agent, query, campaign, is_preview) => {
        const given = { ...click, user_agent, query, campaign, is_preview };
        expect(decodeClick(clickJson(given))).toEqual(given);
      },
    ),
  );
});

test('a text that is too long is truncated by the edge, never inside a character', () => {
  const read = decodeClick(clickJson({ ...click, query: `${'x'.repeat(clickTextMax.query - 1)}😀` }));
  expect(read).toEqual({ ...click, query: 'x'.repeat(clickTextMax.query - 1) });
});

const good = JSON.parse(clickJson(click));
const poison: [string, string, string][] = [
  ['nothing', '', 'not_json'],
  ['half a record', clickJson(click).slice(0, -1), 'not_json'],
  ['NUL bytes', '\0\0\0', 'not_json'],
  ['deep nesting', '['.repeat(70_000), 'not_json'],
  ['deep nesting that is closed', `${'['.repeat(30_000)}${']'.repeat(30_000)}`, 'not_an_object'],
  ['a huge line', `"${'x'.repeat(90_000)}"`, 'too_long'],
  ['null', 'null', 'not_an_object'],
  ['an object without a version', '{}', 'unknown_version'],
  ['a version of the future', JSON.stringify({ ...good, v: 2 }), 'unknown_version'],
  ['a time of 1e400', JSON.stringify(good).replace(/"time":\d+/, '"time":1e400'), 'bad_time'],
  ['a time in text', JSON.stringify({ ...good, time: '2026' }), 'bad_time'],
  ['a time of the year 1970', JSON.stringify({ ...good, time: 1 }), 'bad_time'],
  ['an id of another kind', JSON.stringify({ ...good, app_id: good.link_id }), 'bad_id'],
  ['an id that is a number', JSON.stringify({ ...good, click_id: 1 }), 'bad_id'],
  ['a NUL in a text', JSON.stringify({ ...good, query: 'a\0b' }), 'bad_text'],
  ['a lone surrogate', JSON.stringify({ ...good, user_agent: '\ud800' }), 'bad_text'],
  ['a text that is an object', JSON.stringify({ ...good, referrer: { a: 1 } }), 'bad_field'],
  ['a text beyond its bound', JSON.stringify({ ...good, campaign: 'x'.repeat(256) }), 'bad_field'],
  ['an unknown privacy mode', JSON.stringify({ ...good, privacy_mode: 'all' }), 'bad_field'],
  ['a prototype', JSON.stringify(good).replace('{', '{"__proto__":{"v":1},'), ''],
];

test.each(poison)('%s is rejected with a reason', (_, line, reason) => {
  const read = decodeClick(line);
  expect(isRejection(read) ? read.reason : '').toBe(reason);
});

test('decoding any line gives a click or a known reason', () => {
  const line = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.json(),
    fc
      .record({ key: fc.constantFrom(...Object.keys(good)), value: fc.jsonValue() })
      .map(({ key, value }) => JSON.stringify({ ...good, [key]: value })),
  );
  fc.assert(
    fc.property(line, (text) => {
      const read = decodeClick(text);
      if (isRejection(read)) expect(rejectionReasons).toContain(read.reason);
      else expect(read.click_id).toBe(good.click_id);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test('each text is decoded into its own field', () => {
  const texts = Object.fromEntries(Object.keys(clickTextMax).map((name) => [name, `of ${name}`]));
  expect(decodeClick(clickJson({ ...click, ...texts }))).toEqual({ ...click, ...texts });
});

test.each(Object.entries(clickTextMax))('%s is bounded and may not contain NUL', (name, max) => {
  const read = (value: string) => decodeClick(JSON.stringify({ ...good, [name]: value }));
  expect(read('x'.repeat(max))).toMatchObject({ [name]: 'x'.repeat(max) });
  expect(read('x'.repeat(max + 1))).toEqual({ reason: 'bad_field' });
  expect(read('\0')).toEqual({ reason: 'bad_text' });
});
