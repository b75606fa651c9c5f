/** Sends requests that are generated from the OpenAPI description: enough of them to notice growing memory. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fuzz } from '#deploy/journeys/fuzz/campaign.ts';
import { unlimited } from '#deploy/journeys/fuzz/world.ts';
import { Stack } from '#deploy/journeys/stack.ts';
import { seed, times } from './fault-sizes.ts';

const GROWTH_MIB = 80;

let stack: Stack;
beforeAll(async () => {
  stack = await Stack.start(unlimited);
});
afterAll(() => stack.stop());

test('invalid input of every kind gets only documented answers, and memory stays flat', async () => {
  const result = await fuzz(stack, times(20_000), seed);
  console.log(`seed ${seed}: ${JSON.stringify({ ...result, findings: result.findings.length })}`);
  expect(result.findings.join('\n\n')).toBe('');
  expect(result.isSameChild).toBe(true);
  expect(result.untried).toEqual([]);
  expect(result.memoryMib[1] - result.memoryMib[0]).toBeLessThan(GROWTH_MIB);
});
