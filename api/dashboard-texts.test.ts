/** Every language of the dashboard has all texts, with the same placeholders. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '#common/process/paths.ts';
import { filled } from '#dashboard/texts/filled.ts';

const folder = join(packageRoot(), 'dashboard', 'texts');
/** Includes the texts of screens that are loaded later. */
const catalogue = (file: string): Record<string, string> => ({ ...read(file), ...read(join('later', file)) });
const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Record<string, string>;
const english = catalogue('en.json');
const others = readdirSync(folder).filter((file) => file.endsWith('.json') && file !== 'en.json');
const placeholders = (text = '') => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();

test.each(others)('%s has the texts of the English file, with the same placeholders', (file) => {
  const texts = catalogue(file);
  expect(Object.keys(texts)).toEqual(Object.keys(english));
  const placeholdersOf = (all: Record<string, string>) =>
    Object.fromEntries(Object.entries(all).map(([key, text]) => [key, placeholders(text)]));
  expect(placeholdersOf(texts)).toEqual(placeholdersOf(english));
  // Leftover braces and bars would be visible.
  const unfit = Object.entries(texts).filter(([, text]) => text.trim() === '' || /[{}|]/.test(filled(text, {})));
  expect(unfit).toEqual([]);
});

test('no text is in both catalogues of a language', () => {
  const early = new Set(Object.keys(read('en.json')));
  expect(Object.keys(read(join('later', 'en.json'))).filter((key) => early.has(key))).toEqual([]);
});

/** Names, units and words that are the same in several languages. */
const sameMax = 70;

test.each(others)('%s is a translation, not the English file under another name', (file) => {
  const same = Object.entries(catalogue(file)).filter(([key, text]) => text === english[key]);
  expect(same.length).toBeLessThan(sameMax);
});
