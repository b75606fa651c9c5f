import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutations } from './mutation-list.ts';

test.each(mutations)('the code still contains what the mutation "$without" removes', ({ file, from }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2);
});
