import { expect, test } from 'vitest';
import type { Scope } from '#clickhouse/queries/scope.ts';
import { CountKeyedCache, keyOfScope } from './count-keyed-cache.ts';

const scope: Scope = {
  organization_ids: ['org_1'],
  start_ms: 0,
  end_ms: 1,
  filters: { app_id: { values: ['app_1'], isExclusion: false } },
  include_bots: false,
};

test('a figure is returned only for the count with which it was cached', () => {
  const kept = new CountKeyedCache<string>(10);
  kept.put('a', 3, 'three');
  expect(kept.get('a', 3)).toBe('three');
  expect(kept.get('a', 4)).toBeUndefined();
  expect(kept.get('a', 2)).toBeUndefined();
  expect(kept.get('b', 3)).toBeUndefined();
});

test('the cache is limited, and evicts the least recently used figures', () => {
  const kept = new CountKeyedCache<number>(2);
  kept.put('a', 1, 1);
  kept.put('b', 1, 2);
  kept.get('a', 1);
  kept.put('c', 1, 3);
  expect([kept.get('a', 1), kept.get('b', 1), kept.get('c', 1)]).toEqual([1, undefined, 3]);
});

test('a figure with a changed count is queried without waiting until the count has been stable once', () => {
  const kept = new CountKeyedCache<number>(2);
  expect(kept.isAtRest('a')).toBe(false);
  kept.put('a', 1, 1);
  expect(kept.isAtRest('a')).toBe(true);
  kept.put('a', 2, 1);
  expect(kept.isAtRest('a')).toBe(false);
  kept.put('a', 2, 1);
  expect(kept.isAtRest('a')).toBe(true);
});

test.each<[string, Partial<Scope>]>([
  ['organization', { organization_ids: ['org_2'] }],
  ['further organization', { organization_ids: ['org_1', 'org_2'] }],
  ['beginning', { start_ms: 1 }],
  ['end', { end_ms: 2 }],
  ['filter', { filters: { app_id: { values: ['app_2'], isExclusion: false } } }],
  ['exclusion', { filters: { app_id: { values: ['app_1'], isExclusion: true } } }],
  ['filtered column', { filters: { link_id: { values: ['app_1'], isExclusion: false } } }],
  ['view of bots', { include_bots: true }],
])('figures of another %s are cached separately', (_, changes) => {
  expect(keyOfScope({ ...scope, ...changes })).not.toBe(keyOfScope(scope));
});

test('different parts of a key never give the same key', () => {
  expect(keyOfScope(scope, 'ab', 'c')).not.toBe(keyOfScope(scope, 'a', 'bc'));
  expect(keyOfScope({ ...scope, organization_ids: ['b', 'a'] })).toBe(
    keyOfScope({ ...scope, organization_ids: ['a', 'b'] }),
  );
});
