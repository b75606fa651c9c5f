import type { TestContext } from 'vitest';

/** Skips the test, and prints why, where this machine lacks what it needs. It is then counted as skipped. */
export function skipWithout(isThere: boolean, what: string, context: TestContext): void {
  if (isThere) return;
  console.warn(`skipped: ${what} is not installed on this machine`);
  context.skip(`${what} is not installed`);
}
