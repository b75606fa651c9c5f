import { expect, test } from 'vitest';
import { judged } from './redis-memory.ts';

test('an unsafe maxmemory-policy of Redis is reported together with the recommended one', () => {
  const unsafe = [judged('noeviction', 1e9), judged('allkeys-lru', 1e9), judged('allkeys-random', 0)];
  for (const { fault } of unsafe) expect(fault).toMatch(/maxmemory-policy .* Set it to volatile-lru\.$/);
  const safe = [judged('volatile-lru', 1e9), judged('volatile-ttl', 1e9), judged('noeviction', 0)];
  expect(safe.map(({ fault }) => fault)).toEqual(['', '', '']);
});

test("a Redis that reports no policy, as npm start's stand-in, is not called safe", () => {
  expect(judged('', 0).fault).toMatch(/reports no maxmemory-policy/);
});
