/**
 * Finds endless redirects before they are stored: destinations on the organization's own hosts that lead back. Loops over hosts of several
 * organizations, and changes at the same moment, are left to the redirector (redirector/hops.ts).
 *
 * A walk follows every destination that some visitor could be redirected to. It carries the conditions of the rules on its way, so
 * that two links whose rules send different visitors to each other are no loop.
 */
import type { FieldError } from '#common/http/rejection.ts';
import type { LinkRule } from '#common/links/link-rule.ts';
import type { LinkedApp, LinkSnapshot } from '#common/links/link-snapshot.ts';
import { destinationOf } from './destination.ts';
import type { Platform } from './device.ts';
import { type GivenLink, OwnLinks, type OwnQueries } from './own-links.ts';

/** Redirects between own hosts in a row. Browsers follow 20. */
export const REDIRECT_HOPS_MAX = 10;
/** Of one walk; beyond, the redirector decides. */
const STEPS_MAX = 5_000;

const listed = ['country', 'platform', 'browser', 'language'] as const;
/** What is known about a visitor who comes this way. */
type Conditions = Readonly<Partial<Record<(typeof listed)[number], readonly string[]>>>;

interface Target {
  readonly field: string;
  /** Null: the fallback of the app. */
  readonly url: string | null;
  readonly conditions: Conditions;
}

type Place =
  | { readonly link: LinkSnapshot; readonly app: LinkedApp }
  | { readonly link: null; readonly app: LinkedApp };

/** The faults of links that are about to be stored, in their order. */
export async function linkLoops(
  queries: OwnQueries,
  links: readonly GivenLink[],
  nowMs: number,
): Promise<FieldError[][]> {
  const own = await OwnLinks.load(queries, links, []);
  return links.map((given) => {
    const app = own.appOf(given.app_id);
    return app === undefined ? [] : faultsOf(own, { link: given, app }, nowMs);
  });
}

/** Whether a change can make a loop. */
export function changesWay(changes: Readonly<Record<string, unknown>>): boolean {
  return wayFields.some((name) => changes[name] !== undefined);
}

const wayFields = [
  ...[
    'short_code',
    'ios_url',
    'android_url',
    'fallback_url',
    'expired_url',
    'rules',
    'archived',
    'expires_at',
    'max_clicks',
  ],
];

/** The same faults, named as the caller gave the destinations: `url` stands for three of them. */
export function asGiven(faults: readonly FieldError[], given: Readonly<Record<string, unknown>>): FieldError[] {
  const ofUrl = (field: string) =>
    given['url'] !== undefined && /^(ios|android|fallback)_url$/.test(field) && given[field] === undefined;
  const named = faults.map(({ field, message }) => ({ field: ofUrl(field) ? 'url' : field, message }));
  return named.filter(({ field }, at) => named.findIndex((one) => one.field === field) === at);
}

/** The same of the fallback_url of an app that is about to be stored. */
export async function appLoops(queries: OwnQueries, app: LinkedApp, nowMs: number): Promise<FieldError[]> {
  return faultsOf(await OwnLinks.load(queries, [], [app]), { link: null, app }, nowMs);
}

function faultsOf(own: OwnLinks, start: Place, nowMs: number): FieldError[] {
  const faults = new Map<string, FieldError>();
  const walk = new Walk(own, nowMs);
  for (const target of targetsOf(start, {}, nowMs)) {
    const end = faults.has(target.field) ? null : walk.endOf(start, target);
    if (end !== null) faults.set(target.field, { field: target.field, message: messages[end] });
  }
  return [...faults.values()];
}

const messages = {
  back: 'leads back to itself by your own links: visitors would be redirected endlessly',
  long: `leads over more than ${REDIRECT_HOPS_MAX} of your own links in a row`,
} as const;

type End = keyof typeof messages;

class Walk {
  readonly #own: OwnLinks;
  readonly #nowMs: number;
  #steps = 0;
  /** The way here: places with what is known about the visitor at each. */
  readonly #way: { readonly place: string; readonly conditions: string }[] = [];

  constructor(own: OwnLinks, nowMs: number) {
    this.#own = own;
    this.#nowMs = nowMs;
  }

  endOf(from: Place, { url, conditions }: Target, hops = 0): End | null {
    const next = url === null ? { link: null, app: from.app } : this.#own.at(url);
    return next === null ? null : this.#endAt(next, conditions, url === null ? hops : hops + 1);
  }

  #endAt(place: Place, conditions: Conditions, hops: number): End | null {
    const here = { place: place.link?.id ?? place.app.id, conditions: JSON.stringify(conditions) };
    const before = this.#way.filter((one) => one.place === here.place);
    // What is known only grows, so a visitor about whom nothing new is known comes again and again.
    if (before.some((one) => one.conditions === here.conditions)) return 'back';
    if (hops > REDIRECT_HOPS_MAX) return before.length > 0 ? 'back' : 'long';
    if (++this.#steps > STEPS_MAX) return null;
    this.#way.push(here);
    let end: End | null = null;
    for (const target of targetsOf(place, conditions, this.#nowMs)) {
      end = this.endOf(place, target, hops);
      if (end !== null) break;
    }
    this.#way.pop();
    return end;
  }
}

function* targetsOf({ link, app }: Place, conditions: Conditions, nowMs: number): Generator<Target> {
  if (link === null) {
    if (app.fallback_url !== null) yield { field: 'fallback_url', url: app.fallback_url, conditions };
    return;
  }
  if (link.archived) return;
  const { expires_at, max_clicks, expired_url: url } = link;
  if (url !== null && (expires_at !== null || max_clicks !== null)) yield { field: 'expired_url', url, conditions };
  if (expires_at !== null && expires_at <= nowMs) return;
  for (const [index, rule] of (link.rules ?? []).entries()) {
    const narrowed = narrow(conditions, rule);
    if (narrowed === null) continue;
    for (const [at, { url }] of (rule.variants ?? []).entries())
      yield { field: `rules[${index}].variants[${at}].url`, url, conditions: narrowed };
    if (rule.url !== undefined) yield { field: `rules[${index}].url`, url: rule.url, conditions: narrowed };
    if (decides(rule, conditions)) return;
  }
  yield* defaultTargets(link, app, conditions);
}

const platforms: readonly (readonly [Platform, LinkRule['platform']])[] = [
  ['ios', ['ios']],
  ['android', ['android']],
  ['other', ['desktop', 'other']],
];

function* defaultTargets(link: LinkSnapshot, app: LinkedApp, conditions: Conditions): Generator<Target> {
  for (const [name, platform] of platforms) {
    const narrowed = narrow(conditions, { platform: platform ?? [] });
    if (narrowed === null) continue;
    const found = destinationOf(link, app, name);
    if (found?.destination.kind !== 'web') continue;
    const url = found.rule === 'app.fallback_url' ? null : found.destination.url;
    yield { field: url === null ? 'fallback_url' : found.rule.slice('link.'.length), url, conditions: narrowed };
  }
}

/** What is known about a visitor for whom the rule holds; null if it cannot hold. Times and versions always can. */
function narrow(conditions: Conditions, rule: LinkRule): Conditions | null {
  const narrowed: Record<string, readonly string[]> = { ...conditions };
  for (const name of listed) {
    const wanted = rule[name];
    if (wanted === undefined) continue;
    const known = conditions[name];
    const both =
      known === undefined
        ? wanted
        : [...known.filter((one) => isIn(wanted, one)), ...wanted.filter((one) => isIn(known, one))];
    if (both.length === 0) return null;
    narrowed[name] = [...new Set(both.map((one) => one.toLowerCase()))].sort();
  }
  return narrowed;
}

/** Whether the rule holds for every visitor of whom this is known, and keeps all of them. */
function decides(rule: LinkRule, conditions: Conditions): boolean {
  const { url: _, variants, country: _c, platform: _p, browser: _b, language: _l, ...others } = rule;
  if (Object.values(others).some((value) => value !== undefined)) return false;
  if (variants !== undefined && variants.reduce((sum, { percent }) => sum + percent, 0) < 100) return false;
  return listed.every((name) => {
    const wanted = rule[name];
    return wanted === undefined || (conditions[name]?.every((one) => isIn(wanted, one)) ?? false);
  });
}

/** `de` includes `de-AT`; the other lists have no values that include others. */
function isIn(list: readonly string[], value: string): boolean {
  const one = value.toLowerCase();
  return list.some((other) => one === other.toLowerCase() || one.startsWith(`${other.toLowerCase()}-`));
}
