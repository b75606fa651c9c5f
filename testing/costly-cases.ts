import { test } from 'vitest';

/**
 * Like `test.each`, for cases that each take seconds: `npm test` runs the first `quick` of them, `npm run test:all` runs
 * all. Put the cases first that find the most.
 */
export function testCostlyCases<T>(
  cases: readonly T[],
  quick: number,
  title: string,
  run: (oneCase: T) => Promise<void>,
  timeout?: number,
): void {
  const limit = timeout === undefined ? {} : { timeout };
  test.each(cases.slice(0, quick))(title, limit, run);
  test.each(cases.slice(quick))(title, { ...limit, tags: ['slow'] }, run);
}
