/**
 * The id by which clicks are counted for a rule of a link. It is derived from the rule's conditions and one of its
 * destinations, so that it does not change when rules move or shares change, and figures of one rule never become those
 * of another.
 */
import { createHash } from 'node:crypto';
import type { LinkRule } from './link-rule.ts';

/** 64 bits are enough to be unique among the destinations of one link's rules. */
export const RULE_ID_CHARS = 16;

/** A destination of a rule, and the id of both. */
export interface NamedTarget {
  readonly id: string;
  /** Position of the rule. */
  readonly index: number;
  /** Position of the variant; null if the rule has a url. */
  readonly variant: number | null;
}

export function ruleIdOf(
  linkId: string,
  { url: _url, variants: _variants, ...conditions }: LinkRule,
  url: string,
): string {
  const sorted = Object.entries(conditions)
    .map(([name, value]) => [name, Array.isArray(value) ? [...value].sort() : value])
    .sort(([one = ''], [other = '']) => (one < other ? -1 : 1));
  const text = JSON.stringify([linkId, sorted, url.trim()]);
  return createHash('sha256').update(text).digest('hex').slice(0, RULE_ID_CHARS);
}

/** Every destination of a link's rules, in order. Of two identical ones, visitors reach the first. */
export function namedTargets(linkId: string, rules: readonly LinkRule[] | null): NamedTarget[] {
  const found = new Map<string, NamedTarget>();
  for (const [index, rule] of (rules ?? []).entries()) {
    const targets = rule.variants?.map(({ url }, variant) => ({ url, variant })) ?? [
      { url: rule.url ?? '', variant: null },
    ];
    for (const { url, variant } of targets) {
      const id = ruleIdOf(linkId, rule, url);
      if (!found.has(id)) found.set(id, { id, index, variant });
    }
  }
  return [...found.values()];
}
