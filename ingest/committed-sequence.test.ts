import { expect, test } from 'vitest';
import { CommittedSequence } from './committed-sequence.ts';

test('a message counts as committed only once every frame taken up to it is committed', () => {
  const committed = new CommittedSequence();
  expect(committed.at(0)).toBeUndefined();
  committed.reached(100, 0);
  expect(committed.at(0)).toBe(100);
  committed.reached(103, 2);
  // All of its frames were already known.
  committed.reached(104, 2);
  committed.reached(110, 3);
  expect(committed.at(1)).toBe(100);
  expect(committed.at(2)).toBe(104);
  expect(committed.at(3)).toBe(110);
});

test('after the reader restarts, nothing counts as committed until the frames of the earlier run are committed', () => {
  const committed = new CommittedSequence();
  committed.reached(500, 4);
  committed.forget();
  expect(committed.at(4)).toBeUndefined();
  committed.reached(7, 6);
  expect(committed.at(5)).toBeUndefined();
  expect(committed.at(6)).toBe(7);
});
