/** Rotates keys a thousand times, each time while the keys before and after the rotation are in use. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rotateUnderUse } from '#deploy/journeys/rotation.ts';
import { Stack } from '#deploy/journeys/stack.ts';
import { times } from './fault-sizes.ts';

let stack: Stack;
beforeAll(async () => {
  stack = await Stack.start({ RATE_LIMIT_EVENTS: '10000000' });
});
afterAll(() => stack.stop());

test('no key is accepted after its rotation was answered, and none is refused before', async () => {
  const result = await rotateUnderUse(stack, times(1_000), 200);
  console.log(JSON.stringify(result));
  expect(result).toMatchObject({ acceptedTooLate: 0, refusedTooEarly: 0 });
  expect(result.other).toEqual({});
});
