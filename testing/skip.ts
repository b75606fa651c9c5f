import type { TestContext } from 'vitest';

/** Skips the test, and prints why, if this machine lacks what it needs. It then counts as skipped. */
export function skipWithout(isThere: boolean, what: string, context: TestContext): void {
  if (isThere) return;
  console.warn(`skipped: ${what} is not installed on this machine`);
  context.skip(`${what} is not installed`);
}
