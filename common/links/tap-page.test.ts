import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readTapSignals } from './tap-page.ts';

const good = { timezone: 'Europe/Berlin', screen: [390, 844], pixel_ratio: 3, languages: ['de-DE', 'en'] };

test.each([
  ['the signals of Safari on an iPhone', good],
  ['an Android phone with a fractional ratio and screen', { ...good, screen: [411.43, 914.29], pixel_ratio: 2.625 }],
  ['a time zone of three parts', { ...good, timezone: 'America/Argentina/Buenos_Aires' }],
  ['a time zone with a sign', { ...good, timezone: 'Etc/GMT+12' }],
  ['no time zone and no languages', { ...good, timezone: '', languages: [] }],
  ['a language with script and region', { ...good, languages: ['zh-Hant-TW', 'sr-Latn-RS', 'es-419'] }],
])('%s is read unchanged', (_, signals) => {
  expect(readTapSignals(signals)).toEqual(signals);
});

test.each([
  ['a field that is missing', { ...good, languages: undefined }],
  ['a field too many', { ...good, user: 1 }],
  ['a time zone with markup', { ...good, timezone: '<b>' }],
  ['a time zone without an end', { ...good, timezone: 'x'.repeat(100) }],
  ['a screen of one side', { ...good, screen: [390] }],
  ['a screen of texts', { ...good, screen: ['390', '844'] }],
  ['a screen without sides', { ...good, screen: [0, 844] }],
  ['a screen as large as a house', { ...good, screen: [390, 1e6] }],
  ['no ratio', { ...good, pixel_ratio: 0 }],
  ['an infinite ratio', { ...good, pixel_ratio: Number.POSITIVE_INFINITY }],
  ['a ratio that is not a number', { ...good, pixel_ratio: Number.NaN }],
  ['nine languages', { ...good, languages: Array.from({ length: 9 }, () => 'de') }],
  ['an invalid language', { ...good, languages: ['de DE'] }],
])('%s makes all of it invalid', (_, signals) => {
  expect(readTapSignals(signals)).toBeNull();
});

test('the result is small, whatever was sent', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...Object.keys(good)), fc.jsonValue()), (given) => {
      const signals = readTapSignals({ ...good, ...given });
      if (signals !== null) expect(JSON.stringify(signals).length).toBeLessThan(600);
    }),
  );
});
