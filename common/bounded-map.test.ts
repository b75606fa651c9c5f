import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BoundedMap } from './bounded-map.ts';

const entry = (bytes = 1) => ({ bytes, isUsed: false });

test('the map never exceeds its maximum entries or bytes, and its count is always right', () => {
  const step = fc.tuple(
    fc.constantFrom('set', 'get', 'delete'),
    fc.integer({ min: 0, max: 30 }),
    fc.integer({ min: 1, max: 40 }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const map = new BoundedMap<ReturnType<typeof entry>>(10, 100);
      const kept = new Map<string, number>();
      for (const [what, n, bytes] of steps) {
        const key = String(n);
        if (what === 'set') {
          map.set(key, entry(bytes));
          kept.set(key, bytes);
        } else if (what === 'get') map.get(key);
        else map.delete(key);
        if (map.size > 10 || map.bytes > 100) throw new Error(`${map.size} entries of ${map.bytes} bytes`);
      }
      let bytes = 0;
      for (const [key, size] of kept) if (map.peek(key)) bytes += size;
      expect(map.bytes).toBe(bytes);
    }),
  );
});

test('entries that are used stay, unused ones are evicted', () => {
  const map = new BoundedMap<ReturnType<typeof entry>>(100, 1e9);
  for (let n = 0; n < 50; n++) map.set(`hot${n}`, entry());
  for (let n = 0; n < 10_000; n++) {
    map.set(`cold${n}`, entry());
    map.get(`hot${n % 50}`);
  }
  for (let n = 0; n < 50; n++) expect(map.peek(`hot${n}`), `hot${n}`).toBeDefined();
});

test('an entry larger than the map is not stored and evicts nothing', () => {
  const map = new BoundedMap<ReturnType<typeof entry>>(10, 100);
  map.set('a', entry());
  map.set('b', entry(101));
  expect([map.size, map.peek('b')]).toEqual([1, undefined]);
});

test('each entry that leaves the map is reported once', () => {
  const gone: ReturnType<typeof entry>[] = [];
  const map = new BoundedMap<ReturnType<typeof entry>>(2, 100, (one) => gone.push(one));
  const [replaced, deleted, pushedOut, ...staying] = [entry(), entry(), entry(), entry(), entry()];
  if (!replaced || !deleted || !pushedOut || !staying[0] || !staying[1]) throw new Error('five entries were made');
  map.set('a', replaced);
  map.set('a', deleted);
  map.delete('a');
  map.set('b', pushedOut);
  for (const [n, one] of staying.entries()) map.set(`c${n}`, one);
  expect(gone).toEqual([replaced, deleted, pushedOut]);
  expect(gone.every((one, n) => one === [replaced, deleted, pushedOut][n])).toBe(true);
});

test('an entry that is no longer used is eventually evicted', () => {
  const map = new BoundedMap<ReturnType<typeof entry>>(100, 1e9);
  map.set('hot', entry());
  map.get('hot');
  for (let n = 0; n < 300; n++) map.set(`cold${n}`, entry());
  expect(map.peek('hot')).toBeUndefined();
});

test('an eviction takes some microseconds at most, however many entries there are', () => {
  const map = new BoundedMap<ReturnType<typeof entry>>(60_000, 1e9);
  let n = 0;
  const setMany = (count: number) => {
    for (const end = n + count; n < end; n++) map.set(String(n), entry());
  };
  setMany(120_000);
  const cpuMs = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    setMany(3_000);
    return process.cpuUsage(before).user / 1000;
  });
  // It took 65 ms or more when each eviction began at the start of the map, and takes 1 or 2.
  expect(Math.min(...cpuMs)).toBeLessThan(30);
});

test('a map that has evicted and is then only updated keeps no memory of the updates', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const map = new BoundedMap<ReturnType<typeof entry>>(1_000, 1e9);
  for (let n = 0; n < 1_010; n++) map.set(String(n), entry());
  for (let n = 0; n < 20; n++) map.delete(String(n));
  const bytesOf = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = bytesOf();
  for (let n = 0; n < 400_000; n++) map.set(String(100 + (n % 900)), entry());
  expect(bytesOf() - before).toBeLessThan(10_000_000);
  expect(map.size).toBe(990);
});
