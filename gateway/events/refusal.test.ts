import { expect, test } from 'vitest';
import { excerptOf, reasonOf } from './refusal.ts';

test('every field that can be rejected has a reason from the closed list', () => {
  const reasons = ['', 'revenue.currency', 'revenue.amount', 'name', 'timestamp', 'properties.a[0]', 'link_id'].map(
    (field) => reasonOf({ field }),
  );
  expect(reasons).toEqual([
    ...['not_an_object', 'bad_currency', 'bad_amount', 'bad_name', 'bad_time', 'bad_properties', 'bad_field'],
  ]);
});

test('the excerpt of an item is short JSON, however long, deep or broken the item is', () => {
  let deep: unknown = 'end';
  for (let n = 0; n < 100_000; n++) deep = [deep];
  const items = [deep, { properties: { text: 'x'.repeat(1e6) } }, { a: '\ud800\0' }, Array(1e5).fill('y'), undefined];
  for (const item of items) {
    const text = excerptOf(item);
    expect(text.length).toBeLessThanOrEqual(3_000);
    expect(() => JSON.parse(text)).not.toThrow();
    expect(text).not.toMatch(/\\ud800/);
  }
  expect(excerptOf({ userId: 'u1', properties: { revenue: 5 } })).toBe('{"userId":"u1","properties":{"revenue":5}}');
});
