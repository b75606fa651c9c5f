/**
 * A rotated key is refused from the moment the rotation is answered, however often it is used.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rotateUnderUse } from './rotation.ts';
import { Stack } from './stack.ts';

const ROTATIONS = 150;
const REQUESTS_A_SECOND = 200;

let stack: Stack;

beforeAll(async () => {
  stack = await Stack.start({ RATE_LIMIT_EVENTS: '10000000' });
});
afterAll(() => stack.stop());

test(`${ROTATIONS} rotations under ${REQUESTS_A_SECOND} requests per second: no old key is accepted, no new one refused`, async () => {
  const result = await rotateUnderUse(stack, ROTATIONS, REQUESTS_A_SECOND);
  console.log(JSON.stringify(result));
  expect(result).toMatchObject({ acceptedTooLate: 0, refusedTooEarly: 0 });
  expect(result.other).toEqual({});
  expect(result.accepted).toBeGreaterThan(ROTATIONS / 2);
  expect(result.refused).toBeGreaterThan(ROTATIONS / 2);
});
