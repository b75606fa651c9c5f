/**
 * The texts of the page, by key, with placeholders in braces. To add a language, add two JSON files with the same keys,
 * a line in `languages` and one in each list of catalogues. A language is loaded only when it is used.
 */
import english from './en.json';
import { filled, type Values } from './filled.ts';
import type laterEnglish from './later/en.json';

export type TextKey = keyof typeof english | keyof typeof laterEnglish;
type Catalogue = Readonly<Record<keyof typeof english, string>>;
type LaterCatalogue = Readonly<Record<keyof typeof laterEnglish, string>>;

export const languages = [
  ['en', 'English'],
  ['de', 'Deutsch'],
  ['es', 'Español'],
] as const;
const catalogues: Readonly<Record<string, () => Promise<Catalogue>>> = {
  en: () => Promise.resolve(english),
  de: async () => (await import('./de.json')).default,
  es: async () => (await import('./es.json')).default,
};
/** The texts of screens that are loaded when they are first opened: `screen()` loads these with them. */
const laterCatalogues: Readonly<Record<string, () => Promise<{ default: LaterCatalogue }>>> = {
  en: () => import('./later/en.json'),
  de: () => import('./later/de.json'),
  es: () => import('./later/es.json'),
};
const storageKey = 'signpost-language';

export const language: (typeof languages)[number][0] = chosen();
/** Loaded before anything is rendered, because every part of the page has texts. */
const catalogue: Record<string, string> = { ...((await catalogues[language]?.()) ?? english) };

export async function loadLaterTexts(): Promise<void> {
  const texts = await laterCatalogues[language]?.();
  Object.assign(catalogue, texts?.default);
}

function chosen(): typeof language {
  const wanted = [localStorage.getItem(storageKey) ?? '', ...navigator.languages.map((one) => one.slice(0, 2))];
  const known = wanted.map((one) => languages.find(([code]) => code === one)?.[0]);
  return known.find((one) => one !== undefined) ?? 'en';
}

/** Takes effect at the next load, because every part of the page depends on it. */
export function chooseLanguage(wanted: string): void {
  localStorage.setItem(storageKey, wanted);
  location.reload();
}

/** The text of the key, with its placeholders filled. */
export function t(key: TextKey, values: Values = {}): string {
  return filled(catalogue[key] ?? key, values);
}

/** The text of a value of an extensible enum: the value itself if it has no text yet. */
export function named(prefix: string, value: string): string {
  const key = `${prefix}.${value}`;
  return Object.hasOwn(catalogue, key) ? t(key as TextKey) : value;
}
