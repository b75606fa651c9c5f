import { expect, test } from 'vitest';
import { firstLanguage } from '#ingest/steps/read-headers.ts';
import { acceptedLanguages } from './accepted-languages.ts';
import { languagesOf } from './match/languages.ts';
import { tapTextsFor } from './redirect/tap-page-texts.ts';
import { preferredLanguage } from './redirect/visitor.ts';

test.each<[string, string[]]>([
  ['en;q=0.5, de', ['de', 'en']],
  ['en;q=0.5,fr;q=0.9,de;q=0.9', ['fr', 'de', 'en']],
  ['*, de;q=0.8', ['de']],
  ['en;q=0, de;q=0.1', ['de']],
  ['en;Q=0.2;level=1, de; q=0.3', ['de', 'en']],
  ['de-AT,de;q=0.9,en;q=0.8', ['de-AT', 'de', 'en']],
  ['en;q=x, de', ['de']],
  ['', []],
])('of the header %j, rules, statistics, matching and tap pages use the order %j', (header, order) => {
  expect(acceptedLanguages(header, 8)).toEqual(order);
  const [first = ''] = order;
  expect(firstLanguage(header)).toBe(first);
  expect(languagesOf([header]).language[0]).toBe(first.slice(0, 2));
  expect(tapTextsFor(header).lang).toBe(first.slice(0, 2) || 'en');
  expect(preferredLanguage(header)).toBe(first);
});
