/**
 * The rules of a link: ordered conditions on a visitor, each with a destination. The first matching rule decides
 * (common/redirect/compiled-rules.ts). What may be stored is in link-rule-fields.ts, which redirectors do not load.
 */
export const rulePlatforms = ['ios', 'android', 'desktop', 'other'] as const;
export type RulePlatform = (typeof rulePlatforms)[number];
export const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Weekday = (typeof weekdays)[number];

export interface RuleVariant {
  readonly url: string;
  readonly percent: number;
}

/** Absent conditions match everyone. */
export interface LinkRule {
  readonly country?: readonly string[];
  readonly platform?: readonly RulePlatform[];
  readonly os_version_min?: string;
  readonly os_version_max?: string;
  readonly browser?: readonly string[];
  readonly language?: readonly string[];
  readonly after?: string;
  readonly before?: string;
  readonly weekdays?: readonly Weekday[];
  readonly time_from?: string;
  readonly time_until?: string;
  readonly timezone?: string;
  readonly url?: string;
  readonly variants?: readonly RuleVariant[];
}

/** Every destination of rules that fulfil the schema, with its field. */
export function ruleDestinations(rules: readonly LinkRule[] | null | undefined): { field: string; url: string }[] {
  return (rules ?? []).flatMap(({ url, variants = [] }, index) => [
    ...(url === undefined ? [] : [{ field: `rules[${index}].url`, url }]),
    ...variants.map((variant, at) => ({ field: `rules[${index}].variants[${at}].url`, url: variant.url })),
  ]);
}

export function versionNumbers(text: string): number[] {
  return text.split('.').map(Number);
}

/** Compares only as many numbers as the bound has: 17.6 equals 17. Missing numbers of the version count as 0. */
export function compareVersions(version: readonly number[], bound: readonly number[]): number {
  for (const [at, number] of bound.entries()) {
    const difference = (version[at] ?? 0) - number;
    if (difference !== 0) return difference;
  }
  return 0;
}
