/** Languages as browsers and phones name them, in one form. */
import { LRUCache } from 'lru-cache';
import { acceptedLanguages } from '#common/accepted-languages.ts';

/** Maximum languages of a header or a list. */
export const LANGUAGES_MAX = 8;

/** Old codes, and those that two systems use for one language (BCP 47, IANA language subtag registry). */
const languageAliases: Readonly<Record<string, string>> = { iw: 'he', in: 'id', ji: 'yi', no: 'nb', tl: 'fil' };

/** `en_US`, `en-us`, `zh-Hans-CN` and `en_US.UTF-8` as language and region. */
export function languageOf(text: string): [string, string] {
  const [primary = '', ...rest] = text
    .trim()
    .replace(/[.@].*$/, '')
    .toLowerCase()
    .split(/[-_]/);
  if (!/^[a-z]{2,3}$/.test(primary)) return ['', ''];
  return [languageAliases[primary] ?? primary, rest.find((part) => /^([a-z]{2}|\d{3})$/.test(part)) ?? ''];
}

const languages = new LRUCache<string, Languages>({ max: 5_000 });

export interface Languages {
  /** Primary language and region of the preferred language; empty if unknown. */
  readonly language: readonly [string, string];
  /** Primary languages of the others. */
  readonly more_languages: readonly string[];
}

/** Cached, because there are few distinct headers and lists, and each click at an address has one. */
export function languagesOf(texts: readonly string[]): Languages {
  const key = texts.join();
  let known = languages.get(key);
  if (!known) {
    known = readLanguages(texts);
    languages.set(key, known);
  }
  return known;
}

function readLanguages(texts: readonly string[]): Languages {
  const [first = ['', ''], ...rest] = texts
    .flatMap((text) => acceptedLanguages(text, LANGUAGES_MAX))
    .map(languageOf)
    .filter(([primary]) => primary !== '');
  const more = new Set(rest.map(([primary]) => primary));
  more.delete(first[0]);
  return { language: first, more_languages: [...more] };
}
