/**
 * Requests generated from the OpenAPI description, valid, mutated and random, over every route and credential.
 *
 * @module-tag slow
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fuzz } from './fuzz/campaign.ts';
import { unlimited } from './fuzz/world.ts';
import { Stack } from './stack.ts';

const REQUESTS = 2_000;
const seed = 20_261_121;

let stack: Stack;

beforeAll(async () => {
  stack = await Stack.start(unlimited);
});
afterAll(() => stack.stop());

test(`${REQUESTS} requests of every kind get only documented answers, and the service survives`, async () => {
  const result = await fuzz(stack, REQUESTS, seed);
  console.log(`seed ${seed}: ${JSON.stringify({ ...result, findings: result.findings.length })}`);
  expect(result.findings.join('\n\n')).toBe('');
  expect(result.isSameChild).toBe(true);
});
