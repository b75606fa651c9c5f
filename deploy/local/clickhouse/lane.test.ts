import { expect, test } from 'vitest';
import { StatementLane } from './lane.ts';

test('no more than the limit run at once, the others run in order of arrival, and a full lane rejects', async () => {
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

test('a failed task frees its slot', async () => {
  const lane = new StatementLane(1, 0);
  await expect(lane.run(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await lane.run(() => Promise.resolve(7))).toBe(7);
});

test('a task that runs alone waits for the running ones, and later ones wait for it', async () => {
  const lane = new StatementLane(2, 8);
  const order: string[] = [];
  let end: () => void = () => undefined;
  const first = lane.run(() => new Promise<void>((resolve) => (end = resolve)));
  const alone = lane.runAlone(async () => void order.push('alone'));
  await expect(lane.runAlone(async () => undefined)).rejects.toThrow('another task');
  const later = lane.run(async () => void order.push('later'));
  await Promise.resolve();
  expect(order).toEqual([]);
  end();
  await Promise.all([first, alone, later]);
  expect(order).toEqual(['alone', 'later']);
  expect(lane.busy).toBe(0);
});
