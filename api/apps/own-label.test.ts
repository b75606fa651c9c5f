import { domainToASCII } from 'node:url';
import { expect, test } from 'vitest';
import { labelSkeleton, ownLabelFault } from './own-label.ts';

const fault = (label: string) => ownLabelFault(domainToASCII(label), 'go.example.com');

test.each([
  'shop',
  'a-1',
  'müller',
  'магазин',
  'κατάστημα',
  '買い物',
  '商店',
  '가게',
  'دكان',
  '東京タワー',
  'магазин-24',
])('the label %s of one language is accepted', (label) => expect(fault(label)).toBeNull());

test.each([
  ['appa', 'àppa'],
  ['strasse', 'straße'],
  ['lodz', 'łódź'],
  ['mail', 'maıl'],
  ['мои', 'мой'],
])('the labels %s and %s look alike', (one, other) => {
  expect(labelSkeleton(domainToASCII(other))).toBe(labelSkeleton(domainToASCII(one)));
});

test.each([
  ['कमल', 'कमाल'],
  ['กา', 'กี'],
  ['shop', 'shops'],
])('the labels %s and %s count as different', (one, other) => {
  expect(labelSkeleton(domainToASCII(other))).not.toBe(labelSkeleton(domainToASCII(one)));
});

test.each(['www', 'api', 'wpad', 'autodiscover', 'postmaster', 'ŵww', 'màil'])('the label %s is reserved', (label) =>
  expect(fault(label)).toContain('is reserved'),
);

test.each([
  ['login.shop', 'one label below go.example.com'],
  ['a.b.c', 'one label'],
  ['_dmarc', 'begin with _'],
  ['_domainkey', 'begin with _'],
  ['xn--a-shp-ctb', 'several scripts, or letters that no language uses'],
  ['а-shop', 'several scripts'],
  ['shοp', 'several scripts'],
  ['магазинshop', 'several scripts'],
  ['カタカナмагазин', 'several scripts'],
  ['аррӏе', 'looks like Latin'],
  ['сосо', 'looks like Latin'],
  ['ορα', 'looks like Latin'],
])('the label %s is refused: %s', (label, text) => expect(fault(label)).toContain(text));
