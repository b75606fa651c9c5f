import { expect, test } from 'vitest';
import { settingNumber } from './setting-number.ts';

test.each([
  ['0.8', 0.8],
  [' 0,8 ', 0.8],
  ['0', 0],
  ['72', 72],
  ['', null],
  ['  ', null],
  ['six', 'six'],
  [' six ', ' six '],
  ['1.000,5', '1.000,5'],
  ['1,000', '1,000'],
  ['0,625', 0.625],
  ['Infinity', 'Infinity'],
])('the text %j of a number field is sent as %j', (text, sent) => {
  expect(settingNumber(text)).toBe(sent);
});
