import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutations } from './mutation-list.ts';

test.each(mutations)('the code still has what the mutation "$without" takes out', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2);
});
