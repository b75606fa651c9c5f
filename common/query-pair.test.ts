import { expect, test } from 'vitest';
import { pairName } from './query-pair.ts';

test.each(['a=1', 'a', '', '=x', '%61=1', 'a+b=1', 'a%26b=1', 'a%3Db=1', '?a=1', '%3Fa', '%FC=1', '%=1', 'a==b', '+'])(
  'the name of the pair %j is what every reader of a query gets',
  (pair) => {
    expect(pairName(pair)).toBe([...new URLSearchParams(`?${pair}`).keys()][0] ?? '');
  },
);
