/**
 * Whether two descriptions of a phone can mean one: systems and user agents write identifiers (`iPhone15,2`, `SM-S911B`), some
 * SDKs the name on the box (`iPhone 14 Pro`, `Galaxy S23`). The table is written by deploy/packages/phone-models.mjs.
 */
import { LRUCache } from 'lru-cache';
import table from './phone-models.json' with { type: 'json' };

/** `unlike`: the texts differ, but one of them may be another name for the same phone. */
export type PhoneComparison = 'same' | 'other' | 'unlike' | 'unknown';

interface Phone {
  /** The text in lower case, and without the maker before it. */
  readonly names: readonly string[];
  readonly kind: '' | 'iphone' | 'ipad' | 'ipod';
  readonly maker: string;
  /** What the system calls it; no other phone is called so. */
  readonly isIdentifier: boolean;
  /** All identifiers that it can have; empty where the table has none. */
  readonly identifiers: readonly string[];
}

const identifiersByName = new Map<string, readonly string[]>();
const identifiersOfTable = new Set<string>();
for (const [name, list] of Object.entries(table)) {
  const identifiers = list.toLowerCase().split(' ');
  identifiersByName.set(name.toLowerCase(), identifiers);
  for (const one of identifiers) identifiersOfTable.add(one);
}

const makers: readonly (readonly [name: string, form: RegExp])[] = [
  ['samsung', /^(samsung|sm-|galaxy|gt-[inps]\d)/],
  ['google', /^(google|pixel)\b/],
  ['xiaomi', /^(xiaomi|redmi|poco|mi \d|m2\d{3}|2\d{6,7}|\d{5}[a-z])/],
  // OnePlus and realme have had models of Oppo's form.
  ['oppo', /^(oppo|oneplus|realme|cph\d|rmx\d|find |reno)/],
  ['vivo', /^(vivo|iqoo|v\d{4}[a-z]?$)/],
  ['motorola', /^(moto|xt\d{4})/],
  ['huawei', /^huawei\b/],
  ['honor', /^honor\b/],
  ['nothing', /^nothing\b/],
  ['sony', /^(sony|xperia|xq-)/],
];
const makerBefore =
  /^(?:apple|samsung|google|xiaomi|oppo|vivo|oneplus|realme|motorola|huawei|honor|nokia|sony|lge|asus) /;

const phones = new LRUCache<string, Phone>({ max: 10_000 });

/** Texts in lower case. */
export function comparePhones(a: string, b: string): PhoneComparison {
  if (a === '' || b === '') return 'unknown';
  if (a === b) return isBare(a) ? 'unknown' : 'same';
  const [one, other] = [phoneOf(a), phoneOf(b)];
  if (one.kind !== other.kind) return 'other';
  if (isBare(a) || isBare(b)) return 'unknown';
  if (one.names.some((name) => other.names.includes(name))) return 'same';
  if (one.isIdentifier && other.isIdentifier) return 'other';
  if (one.identifiers.length > 0 && other.identifiers.length > 0) {
    return one.identifiers.some((identifier) => other.identifiers.includes(identifier)) ? 'same' : 'other';
  }
  if (one.maker !== '' && other.maker !== '' && one.maker !== other.maker) return 'other';
  return one.kind !== '' || one.isIdentifier || other.isIdentifier ? 'unknown' : 'unlike';
}

/** "iPhone" alone is no model: it can be any iPhone, but no iPad. */
function isBare(model: string): boolean {
  return model === 'iphone' || model === 'ipad' || model === 'ipod' || model === 'ipod touch';
}

function phoneOf(model: string): Phone {
  let phone = phones.get(model);
  if (!phone) {
    phone = describe(model);
    phones.set(model, phone);
  }
  return phone;
}

function describe(model: string): Phone {
  const text = model.trim().replace(/\s+/g, ' ').replace(/\/ds$/, '');
  const names = [...new Set([text, text.replace(makerBefore, '')])];
  const kind = (/^(iphone|ipad|ipod)/.exec(names.at(-1) ?? '')?.[1] ?? '') as Phone['kind'];
  const identifier = names.find((name) => isIdentifier(name, kind));
  return {
    names,
    kind,
    maker: kind === '' ? (makers.find(([, form]) => names.some((name) => form.test(name)))?.[0] ?? '') : 'apple',
    isIdentifier: identifier !== undefined,
    identifiers: identifier === undefined ? named(names) : known(identifier),
  };
}

function isIdentifier(name: string, kind: Phone['kind']): boolean {
  if (kind !== '') return /^(iphone|ipad|ipod)\d+,\d+$/.test(name);
  // A Pixel's name is its model.
  if (identifiersOfTable.has(name) || /^(sm-[a-z]\d{3}|pixel )/.test(name)) return true;
  // One word with a number of four digits or more, or letters, a dash and three.
  return /^[\w-]+$/.test(name) && ((name.match(/\d/g)?.length ?? 0) >= 4 || /^[a-z]{2,3}-[a-z]{0,3}\d{3}/.test(name));
}

/** Of an identifier that the table does not have, nothing is said. Samsung's are alike up to the region. */
function known(identifier: string): readonly string[] {
  const one = /^sm-[a-z]\d{3}/.exec(identifier)?.[0] ?? identifier;
  return identifiersOfTable.has(one) ? [one] : [];
}

/** The 5G in a name is left out by some. */
function named(names: readonly string[]): readonly string[] {
  for (const form of [
    (name: string) => name,
    (name: string) => `${name} 5g`,
    (name: string) => name.replace(/ 5g$/, ''),
  ])
    for (const name of names) {
      const found = identifiersByName.get(form(name));
      if (found) return found;
    }
  return [];
}
