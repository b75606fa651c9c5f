/**
 * The rules of a link, prepared once per link and change for the visits that follow (rules of links: common/links/link-rule.ts).
 * Conditions are lists of functions, so that a decision and its explanation are the same code.
 */

import { limitAddress } from '#common/http/peer.ts';
import {
  compareVersions,
  type LinkRule,
  type RuleVariant,
  versionNumbers,
  type Weekday,
  weekdays,
} from '#common/links/link-rule.ts';
import { localTimeOf } from '#common/local-time.ts';
import { clickTextMax } from '#common/log/record.ts';
import { detailsOf, type VisitorDevice } from './device.ts';
import { evenly, mixed } from './even-hash.ts';
import { preferredLanguage } from './visitor.ts';

/** Where countries of addresses are known. */
export interface Countries {
  /** ISO 3166 alpha-2 code in upper case; empty if unknown. */
  countryOf(ip: string): string;
}

/** A visit as far as rules depend on it. What costs something is computed by the first condition that needs it. */
export class RuledVisit {
  readonly device: VisitorDevice;
  readonly user_agent: string;
  readonly nowMs: number;
  readonly ip: string;
  readonly #countries: Countries;
  readonly #accepted: string;
  #country: string | undefined;
  #language: string | undefined;

  constructor(
    device: VisitorDevice,
    { user_agent, language, ip }: { readonly user_agent: string; readonly language: string; readonly ip: string },
    nowMs: number,
    countries: Countries,
  ) {
    this.device = device;
    this.user_agent = user_agent;
    this.ip = ip;
    this.nowMs = nowMs;
    this.#countries = countries;
    this.#accepted = language;
  }

  get country(): string {
    this.#country ??= this.#countries.countryOf(this.ip);
    return this.#country;
  }

  /** In lower case. */
  get language(): string {
    this.#language ??= preferredLanguage(this.#accepted.slice(0, clickTextMax.language)).toLowerCase();
    return this.#language;
  }
}

/** What a rule asks, by the field that is named in explanations; `variants`: the visitor is in no share. */
export type RuleCondition =
  | 'country'
  | 'platform'
  | 'os_version_min'
  | 'os_version_max'
  | 'browser'
  | 'language'
  | 'after'
  | 'before'
  | 'weekdays'
  | 'variants';

type Condition = readonly [field: RuleCondition, holds: (visit: RuledVisit) => boolean];

/** A destination of a rule. */
export interface RuleTarget {
  /** Position of the rule. */
  readonly index: number;
  /** Position of the variant; null if the rule has a url. */
  readonly variant: number | null;
  readonly url: string;
  readonly rule: LinkRule;
}

interface Share {
  readonly target: RuleTarget;
  /** Visitors with a lower place have this one, or one before. */
  readonly below: number;
}

interface CompiledRule {
  readonly conditions: readonly Condition[];
  readonly shares: readonly Share[];
  /** Null if everyone has the only target. */
  readonly seed: number | null;
}

export class CompiledRules {
  readonly #rules: readonly CompiledRule[];

  constructor(linkId: string, rules: readonly LinkRule[]) {
    let draws = 0;
    this.#rules = rules.map((rule, index) => ({
      conditions: conditionsOf(rule),
      shares: sharesOf(rule, index),
      // By their number among the rules with variants: a rule before them, without variants, moves no visitor.
      seed: rule.variants === undefined ? null : mixed(0, `${linkId} ${draws++}`),
    }));
  }

  /** The first rule that holds for the visit; null if none does. */
  choose(visit: RuledVisit): RuleTarget | null {
    for (const rule of this.#rules) {
      if (failing(rule, visit) !== null) continue;
      const target = targetOf(rule, visit);
      if (target !== null) return target;
    }
    return null;
  }

  /** For each rule up to the one that decides: the condition that does not hold, or null. */
  explain(visit: RuledVisit): (RuleCondition | null)[] {
    const found: (RuleCondition | null)[] = [];
    for (const rule of this.#rules) {
      const condition = failing(rule, visit) ?? (targetOf(rule, visit) === null ? 'variants' : null);
      found.push(condition);
      if (condition === null) break;
    }
    return found;
  }
}

function failing({ conditions }: CompiledRule, visit: RuledVisit): RuleCondition | null {
  for (const [field, holds] of conditions) if (!holds(visit)) return field;
  return null;
}

function targetOf({ shares, seed }: CompiledRule, visit: RuledVisit): RuleTarget | null {
  if (seed === null) return shares[0]?.target ?? null;
  const place = placeOf(seed, visit);
  for (const { target, below } of shares) if (place < below) return target;
  return null;
}

/**
 * A number below 100 that stays the same for a visitor: of the address, or the /64 of an IPv6 one, and the user agent. Nothing is
 * stored on the device or here.
 */
function placeOf(seed: number, { ip, device, user_agent }: RuledVisit): number {
  return evenly(mixed(seed, limitAddress(ip)) ^ detailsOf(device, user_agent).hash, 100);
}

function sharesOf(rule: LinkRule, index: number): Share[] {
  const { url, variants } = rule;
  if (variants === undefined)
    return url === undefined ? [] : [{ target: { index, variant: null, url, rule }, below: 100 }];
  let below = 0;
  return variants.map(({ url, percent }: RuleVariant, variant) => {
    below += percent;
    return { target: { index, variant, url, rule }, below };
  });
}

/** Cheap ones first. */
function conditionsOf(rule: LinkRule): Condition[] {
  return [...dateConditions(rule), ...deviceConditions(rule), ...personConditions(rule), ...weekConditions(rule)];
}

function dateConditions({ after, before }: LinkRule): Condition[] {
  const [afterMs, beforeMs] = [Date.parse(after ?? ''), Date.parse(before ?? '')];
  return [
    ...(after === undefined ? [] : [condition('after', ({ nowMs }) => nowMs >= afterMs)]),
    ...(before === undefined ? [] : [condition('before', ({ nowMs }) => nowMs < beforeMs)]),
  ];
}

function condition(field: RuleCondition, holds: (visit: RuledVisit) => boolean): Condition {
  return [field, holds];
}

function deviceConditions({ platform, os_version_min, os_version_max, browser }: LinkRule): Condition[] {
  const found: Condition[] = [];
  const about = ({ device, user_agent }: RuledVisit) => detailsOf(device, user_agent);
  if (platform !== undefined) {
    const wanted: readonly string[] = platform;
    found.push(
      condition('platform', (visit) => {
        const { platform: store } = visit.device;
        return wanted.includes(store === 'other' ? about(visit).platform : store);
      }),
    );
  }
  if (os_version_min !== undefined) {
    const bound = versionNumbers(os_version_min);
    found.push(
      condition('os_version_min', (visit) => {
        const { os_version, os_version_min: least } = about(visit);
        const known = os_version.length > 0 ? os_version : least;
        return known.length > 0 && compareVersions(known, bound) >= 0;
      }),
    );
  }
  if (os_version_max !== undefined) {
    const bound = versionNumbers(os_version_max);
    found.push(
      condition('os_version_max', (visit) => {
        const { os_version } = about(visit);
        return os_version.length > 0 && compareVersions(os_version, bound) <= 0;
      }),
    );
  }
  if (browser !== undefined) {
    const wanted = browser.map((name) => name.toLowerCase());
    found.push(condition('browser', (visit) => wanted.includes(about(visit).browser)));
  }
  return found;
}

function personConditions({ language, country }: LinkRule): Condition[] {
  const found: Condition[] = [];
  if (language !== undefined) {
    const wanted = language.map((tag) => tag.toLowerCase());
    const includes = (preferred: string) =>
      wanted.some((tag) => preferred === tag || (preferred.startsWith(tag) && preferred[tag.length] === '-'));
    found.push(condition('language', (visit) => includes(visit.language)));
  }
  if (country !== undefined) {
    found.push(condition('country', (visit) => country.includes(visit.country)));
  }
  return found;
}

function weekConditions({ weekdays: days, time_from, time_until, timezone = '' }: LinkRule): Condition[] {
  if (days === undefined && time_from === undefined) return [];
  const dayNumbers = new Set((days ?? weekdays).map((day: Weekday) => weekdays.indexOf(day)));
  const from = minutesOf(time_from ?? '00:00');
  const until = time_until === undefined ? 1_440 : minutesOf(time_until);
  return [
    condition('weekdays', ({ nowMs }) => {
      const local = localTimeOf(timezone);
      if (local === null) return false;
      const minute = local.minuteOfWeek(nowMs);
      const [day, ofDay] = [Math.floor(minute / 1_440), minute % 1_440];
      if (from < until) return dayNumbers.has(day) && ofDay >= from && ofDay < until;
      return ofDay >= from ? dayNumbers.has(day) : ofDay < until && dayNumbers.has((day + 6) % 7);
    }),
  ];
}

function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
}
