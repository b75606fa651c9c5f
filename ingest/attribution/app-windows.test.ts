import { expect, test } from 'vitest';
import { AppWindows } from './app-windows.ts';

test('a changed window applies within five seconds, even for an app with a steady stream of clicks', async () => {
  let nowMs = 1_000_000;
  let hours = 24;
  const asked: string[][] = [];
  const windows = new AppWindows(
    async (ids) => {
      asked.push([...ids]);
      return ids.map(() => ({ attribution_window_hours: hours, probabilistic_window_hours: 6 }));
    },
    () => nowMs,
  );
  const seen: (number | undefined)[] = [];
  for (let second = 0; second <= 6; second++) {
    const found = await windows.of(new Set(['app_a', 'app_b']));
    seen.push(found.get('app_b')?.attribution_window_hours);
    hours = 48;
    nowMs += 1_000;
  }
  expect(seen).toEqual([24, 24, 24, 24, 24, 48, 48]);
  expect(asked).toEqual([
    ['app_a', 'app_b'],
    ['app_a', 'app_b'],
  ]);
});
