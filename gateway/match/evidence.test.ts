import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import { namedClicks } from './evidence.ts';
import type { MatchFields } from './match-schema.ts';

const click_id = newId('clk', 1);
const plain = `utm_source=mail&click_id=${click_id}`;

test.each([
  ['as it was set', plain],
  ['encoded once', encodeURIComponent(plain)],
  ['encoded twice', encodeURIComponent(encodeURIComponent(plain))],
])('a click id in a referrer that is %s is found', (_, install_referrer) => {
  const fields: MatchFields = { platform: 'android', install_referrer };
  expect(namedClicks(fields)).toEqual([{ type: 'install_referrer', click_id }]);
});

test.each([['%'], ['%25%'], ['%2525252525'], ['click_id%25253D']])(
  'the referrer %j names no click',
  (install_referrer) => {
    expect(namedClicks({ platform: 'android', install_referrer })).toEqual([]);
  },
);
