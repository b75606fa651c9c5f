import { expect, test } from 'vitest';
import { DrivenTime, settled } from '#testing/driven-time.ts';
import { Worker, type WorkerOptions } from './worker.ts';

function worker(changes: Partial<WorkerOptions> = {}) {
  const time = new DrivenTime();
  const lines: string[] = [];
  const passes: number[] = [];
  const open: (() => void)[] = [];
  const state = { failure: undefined as Error | undefined, isHeld: false };
  const log = {
    warn: (fields: { err?: unknown }, line: string) => lines.push(`${line}: ${String(fields.err)}`),
    info: (fields: object, line: string) => lines.push(`${line} ${JSON.stringify(fields)}`),
  } as unknown as WorkerOptions['log'];
  const pass = async () => {
    passes.push(time.now());
    if (state.isHeld) await new Promise<void>((go) => open.push(go));
    if (state.failure) throw state.failure;
  };
  const loop = new Worker({
    ...{ name: 'loop', pass, everyMs: 1_000, log, failing: 'the loop fails', working: 'the loop works again', time },
    ...{ random: () => 0.5, ...changes },
  });
  const release = async () => {
    for (const go of open.splice(0)) go();
    await settled();
  };
  return { loop, time, lines, passes, state, release };
}

test('it runs at the start, and then with a pause after each pass', async () => {
  const { loop, time, passes } = worker();
  loop.start();
  await settled();
  await time.pass(3_500);
  expect(passes).toEqual([0, 1_000, 2_000, 3_000]);
  await loop.stop();
  await time.pass(10_000);
  expect([passes.length, time.nextMs]).toEqual([4, undefined]);
});

test('no two passes run at once, also if one is asked for between two passes', async () => {
  const { loop, passes, state, release } = worker();
  state.isHeld = true;
  const first = loop.run();
  const third = first.then(() => loop.run());
  const second = loop.run();
  await settled();
  await release();
  expect(passes).toHaveLength(2);
  await release();
  expect([await first, await second, await third]).toEqual([true, true, true]);
  expect(passes).toHaveLength(2);
});

test('a pass decides when the next one is', async () => {
  let pauseMs = 60_000;
  const times: number[] = [];
  const { loop, time } = worker({
    pass: async () => {
      times.push(time.now());
      return pauseMs;
    },
  });
  loop.start();
  await settled();
  pauseMs = 5;
  await time.pass(60_004);
  expect(times).toEqual([0, 60_000]);
  await time.pass(1);
  expect(times).toHaveLength(3);
  await loop.stop();
});

test('there is one pass at a time, and one more after it for everyone who woke it meanwhile', async () => {
  const { loop, passes, state, release } = worker();
  state.isHeld = true;
  loop.start();
  const [one, two] = [loop.run(), loop.run()];
  loop.wake();
  await settled();
  expect(passes).toHaveLength(1);
  await release();
  expect(passes).toHaveLength(2);
  state.failure = new Error('away');
  await release();
  expect([await one, await two]).toEqual([false, false]);
  expect(passes).toHaveLength(2);
  await loop.stop();
});

test('while it fails, its pause doubles up to half a minute, with jitter; waking it does not wait', async () => {
  for (const [random, factor] of [
    [0, 0.75],
    [1, 1.25],
  ] as const) {
    const { loop, time, passes, state } = worker({ random: () => random });
    state.failure = new Error('away');
    loop.start();
    await settled();
    await time.pass(200_000);
    const pauses = passes.slice(1).map((at, n) => (at - (passes[n] ?? 0)) / factor / 1_000);
    expect(pauses.slice(0, 7)).toEqual([1, 2, 4, 8, 16, 30, 30]);
    loop.wake();
    expect(passes.at(-1)).toBe(200_000);
    await settled();
    await loop.stop();
  }
});

test('an outage of an hour is one warning with its reason, and its end is one line', async () => {
  const { loop, time, lines, state } = worker();
  state.failure = new Error('away');
  loop.start();
  await settled();
  expect(loop.isFailing).toBe(true);
  await time.pass(3_600_000);
  expect(lines).toEqual(['the loop fails: Error: away']);
  state.failure = undefined;
  await time.pass(30_000);
  await time.pass(3_600_000);
  expect(lines.slice(1)).toEqual([expect.stringMatching(/^the loop works again \{"failed_passes":1\d\d\}$/)]);
  expect(loop.isFailing).toBe(false);
  await loop.stop();
});

test('stopping waits for the pass, lets none follow, and is seen by it', async () => {
  const { loop, time, passes, state, release } = worker();
  state.isHeld = true;
  loop.start();
  const next = loop.run();
  let isOver = false;
  const stopped = loop.stop().then(() => {
    isOver = true;
  });
  await settled();
  expect([isOver, loop.isStopped]).toEqual([false, true]);
  await release();
  await stopped;
  expect([passes.length, await next, await loop.run(), time.nextMs]).toEqual([1, false, false, undefined]);
});

test('without a start, a pass runs when it is asked for, and none follows', async () => {
  const { loop, time, passes } = worker();
  loop.wake();
  expect(passes).toEqual([]);
  expect(await loop.run()).toBe(true);
  expect([passes.length, time.nextMs]).toEqual([1, undefined]);
});
