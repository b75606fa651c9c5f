import { expect, test } from 'vitest';
import { newId } from '#common/ids.ts';
import type { LinkRule } from './link-rule.ts';
import { namedTargets, RULE_ID_CHARS, ruleIdOf } from './rule-id.ts';

const link = newId('lnk', 1);
const [a, b] = ['https://example.com/a', 'https://example.com/b'];
const inGermany: LinkRule = { country: ['DE', 'AT'], after: '2026-01-01T00:00:00Z', url: a };
const halves: LinkRule = {
  language: ['de'],
  variants: [
    { url: a, percent: 50 },
    { url: b, percent: 50 },
  ],
};
const idsOf = (rules: readonly LinkRule[]) => namedTargets(link, rules).map(({ id }) => id);

test('the ids of rules do not change when rules, conditions or shares change', () => {
  const before = new Set(idsOf([inGermany, halves]));
  expect(before.size).toBe(3);
  const [first, second] = halves.variants ?? [];
  if (first === undefined || second === undefined) throw new Error('no variants');
  const turned = {
    ...halves,
    variants: [
      { ...second, percent: 90 },
      { ...first, percent: 10 },
    ],
  };
  const reordered = { url: ` ${a} `, after: '2026-01-01T00:00:00Z', country: ['AT', 'DE'] };
  expect(new Set(idsOf([turned, reordered]))).toEqual(before);
  expect(ruleIdOf(link, halves, b)).toBe(ruleIdOf(link, { language: ['de'], url: b }, b));
});

test.each<[string, LinkRule]>([
  ['a country less', { ...inGermany, country: ['DE'] }],
  ['another destination', { ...inGermany, url: b }],
  ['another condition with the same value', { after: '2026-01-01T00:00:00Z', language: ['DE', 'AT'], url: a }],
  ['no condition', { url: a }],
])('a rule with %s has another id', (_, changed) => {
  const [id = ''] = idsOf([inGermany]);
  expect(id).toHaveLength(RULE_ID_CHARS);
  expect(idsOf([changed])).not.toContain(id);
});

test('the same rule of two links has two ids', () => {
  expect(ruleIdOf(newId('lnk', 2), inGermany, a)).not.toBe(ruleIdOf(link, inGermany, a));
});

test('of two identical destinations, the first has the id', () => {
  const found = namedTargets(link, [halves, inGermany, inGermany, halves]);
  expect(found.map(({ index, variant }) => [index, variant])).toEqual([
    [0, 0],
    [0, 1],
    [1, null],
  ]);
});
