/** Checks that every mutation in `mutation-list.ts` still fits its source file. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutations } from './mutation-list.ts';

test.each(mutations)('the code that the mutation "$without" replaces occurs exactly once', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2);
});
