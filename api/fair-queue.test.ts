import { expect, test } from 'vitest';
import { FairQueue } from './fair-queue.ts';

/** Work that ends when the test says so. */
function work(log: string[], name: string) {
  let end: (() => void) | undefined;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  return {
    end: () => end?.(),
    run: async () => {
      log.push(name);
      await ended;
      return name;
    },
  };
}

type Work = ReturnType<typeof work>;
type Six = [Work, Work, Work, Work, Work, Work];
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('a caller with many jobs delays only itself, and others get their turn immediately', async () => {
  const queue = new FairQueue({ runningMax: 3, perKeyMax: 2, waitingMax: 10, keysMax: 10 });
  const log: string[] = [];
  const a = Array.from({ length: 6 }, (_, at) => work(log, `a${at}`));
  const b = work(log, 'b');
  const c = work(log, 'c');
  const all = [...a.map((one) => queue.run('a', one.run)), queue.run('b', b.run), queue.run('c', c.run)];
  await settle();
  expect(log).toEqual(['a0', 'a1', 'b']);
  a[0]?.end();
  await settle();
  // A waiting key that has not had a turn is served before the next job of `a`.
  expect(log.slice(3)).toEqual(['a2']);
  b.end();
  await settle();
  expect(log.slice(4)).toEqual(['c']);
  for (const one of [...a, c]) one.end();
  expect(await Promise.all(all)).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'b', 'c']);
  expect(queue.running).toBe(0);
});

test('work that exceeds the queue is rejected', async () => {
  const queue = new FairQueue({ runningMax: 1, perKeyMax: 1, waitingMax: 1, keysMax: 2 });
  const log: string[] = [];
  const one = work(log, 'one');
  const running = [queue.run('a', one.run), queue.run('a', one.run)];
  expect(await queue.run('a', one.run)).toBe('full');
  running.push(queue.run('b', one.run));
  expect(await queue.run('c', one.run)).toBe('full');
  one.end();
  expect(await Promise.all(running)).toEqual(['one', 'one', 'one']);
});

test('waiting for a slot times out, and the slot is free for others afterwards', async () => {
  const queue = new FairQueue({ runningMax: 1, perKeyMax: 1, waitingMax: 1, keysMax: 2 });
  const held = await queue.enter('a');
  expect(await queue.enter('b', 1)).toBeNull();
  const last = queue.enter('b', 60_000);
  held?.leave();
  held?.leave();
  (await last)?.leave();
  expect(queue.running).toBe(0);
  expect(await queue.run('c', async () => 1)).toBe(1);
});

test('a failing job frees its slot', async () => {
  const queue = new FairQueue({ runningMax: 1, perKeyMax: 1, waitingMax: 1, keysMax: 2 });
  await expect(queue.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await queue.run('a', async () => 1)).toBe(1);
});

test('a key never runs more than its share, even if slots are free', async () => {
  const queue = new FairQueue({ runningMax: 2, perKeyMax: 1, waitingMax: 10, keysMax: 10 });
  const log: string[] = [];
  const [a0, a1, b] = [work(log, 'a0'), work(log, 'a1'), work(log, 'b')];
  const all = [queue.run('a', a0.run), queue.run('a', a1.run), queue.run('b', b.run)];
  await settle();
  b.end();
  await settle();
  expect(log).toEqual(['a0', 'b']);
  a0.end();
  a1.end();
  await Promise.all(all);
});

test('waiting keys are served in turn', async () => {
  const queue = new FairQueue({ runningMax: 1, perKeyMax: 1, waitingMax: 10, keysMax: 10 });
  const log: string[] = [];
  const names = ['a0', 'a1', 'a2', 'b0', 'b1'];
  const works = names.map((name) => work(log, name));
  const all = works.map((one, at) => queue.run(names[at]?.charAt(0) ?? '', one.run));
  for (const one of works) one.end();
  await Promise.all(all);
  expect(log).toEqual(['a0', 'a1', 'b0', 'a2', 'b1']);
});

test('a request that has begun goes on before others begin, and its key still runs no more than its share', async () => {
  const queue = new FairQueue({ runningMax: 2, perKeyMax: 1, waitingMax: 10, keysMax: 10 });
  const log: string[] = [];
  const [a0, a1, a2, b0, c0, d0] = ['a0', 'a1', 'a2', 'b0', 'c0', 'd0'].map((name) => work(log, name)) as Six;
  const all = [queue.run('a', a0.run), queue.run('b', b0.run), queue.run('c', c0.run), queue.run('d', d0.run)];
  all.push(queue.run('a', a1.run, true), queue.run('a', a2.run, true));
  await settle();
  expect(log).toEqual(['a0', 'b0']);
  b0.end();
  await settle();
  expect(log.slice(2), 'a runs its share').toEqual(['c0']);
  a0.end();
  await settle();
  expect(log.slice(3)).toEqual(['a1']);
  for (const one of [a1, a2, c0, d0]) one.end();
  await Promise.all(all);
  expect(log.slice(4)).toEqual(['a2', 'd0']);
  expect(queue.running).toBe(0);
});
