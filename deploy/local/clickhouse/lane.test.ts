import { expect, test } from 'vitest';
import { StatementLane } from './lane.ts';

test('no more run than may, the others in the order they came, and a full lane says so', async () => {
  const lane = new StatementLane(2, 1);
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const work = (name: string) => () => {
    order.push(name);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const all = ['a', 'b', 'c'].map((name) => lane.run(work(name)));
  expect(order).toEqual(['a', 'b']);
  expect(lane.isFull).toBe(true);
  expect(lane.busy).toBe(3);
  ends[0]?.();
  await all[0];
  await expect.poll(() => order).toEqual(['a', 'b', 'c']);
  for (const end of ends) end();
  await Promise.all(all);
  expect(lane.busy).toBe(0);
});

test('work that fails gives its place back', async () => {
  const lane = new StatementLane(1, 0);
  await expect(lane.run(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await lane.run(() => Promise.resolve(7))).toBe(7);
});
