/** What a label may be, below the installation's domain, where no DNS record proves that the host is its app's own. */
import { domainToUnicode } from 'node:url';
import { reservedLabels } from './reserved-labels.ts';

/** Texts with at least one of these letters, and else only what belongs to every script, such as digits. */
const only = (letters: string) =>
  new RegExp(`^(?=.*[${letters}])[${letters}\\p{Script=Common}\\p{Script=Inherited}]*$`, 'u');
const script = (...names: readonly string[]) => only(names.map((name) => `\\p{Script_Extensions=${name}}`).join(''));

/** Combinations that one language writes with, as in Unicode's "highly restrictive" level (UTS 39), without Latin. */
const written: readonly RegExp[] = [
  ...[
    ...['Arabic', 'Armenian', 'Bengali', 'Devanagari', 'Ethiopic', 'Georgian', 'Gujarati', 'Gurmukhi'],
    ...['Hebrew', 'Kannada', 'Khmer', 'Lao', 'Malayalam', 'Myanmar', 'Oriya', 'Sinhala', 'Tamil', 'Telugu', 'Thaana'],
    ...['Thai', 'Tibetan', 'Cyrillic', 'Greek'],
  ].map((name) => script(name)),
  script('Han', 'Hiragana', 'Katakana'),
  script('Han', 'Bopomofo'),
  script('Han', 'Hangul'),
];
/** Of Latin letters, those of today's languages: many others look like these. In decomposed form. */
const latin = /^[-0-9a-zßæœøðþđħıłŋŧ\p{M}]+$/u;
/** Letters of Cyrillic and Greek that look like Latin ones: a name of nothing else looks like another name. */
const looksLatin = only('асеһіјӏорѕхуԁԛԝьгкмтпαβγικνορτυχωϲ');

/** Why a host below the domain cannot have this label, in ASCII; null if it can. */
export function ownLabelFault(label: string, domain: string): string | null {
  if (label.includes('.')) return `must be one label below ${domain}, such as shop.${domain}`;
  if (label.startsWith('_')) return 'must not begin with _';
  if (reservedLabels.has(labelSkeleton(label))) return 'is reserved for the service itself';
  if (!label.startsWith('xn--')) return null;
  const text = domainToUnicode(label);
  if (!latin.test(text.normalize('NFD')) && !written.some((one) => one.test(text)))
    return 'has letters of several scripts, or letters that no language uses';
  return looksLatin.test(text) ? 'looks like Latin letters and is not' : null;
}

/** Letters of Latin languages that Unicode does not decompose, as they are read without their marks. */
const plainLetters: Readonly<Record<string, string>> = {
  ...{ ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o', ð: 'd', þ: 'th', đ: 'd', ħ: 'h', ı: 'i', ł: 'l', ŋ: 'n', ŧ: 't' },
};
const plainLetter = new RegExp(`[${Object.keys(plainLetters).join('')}]`, 'gu');

/** What people take a label for, given in ASCII: without accents. Marks that belong to one script are letters there. */
export function labelSkeleton(label: string): string {
  return (domainToUnicode(label) || label)
    .normalize('NFKD')
    .replaceAll(/\p{Script=Inherited}/gu, '')
    .replaceAll(plainLetter, (letter) => plainLetters[letter] ?? letter);
}
