import { expect, test } from 'vitest';
import type { JournalLane } from '#common/journal/journal.ts';
import { ClickLanes } from './click-lanes.ts';

const journal = {
  lane: (kind: JournalLane['kind'], partition: number): JournalLane => ({
    ...{ kind, partition },
    ...{ frame_no: 0, records: 0, text: '' },
  }),
};
const start = 1_790_000_000_000;

/** The partition of a click in each period of 100 ms. */
function partitionsOf(lanes: ClickLanes, from: number, turns: number): number[] {
  return Array.from({ length: turns * 10 }, (_, at) => lanes.at(from + at * 100).partition);
}

test('every partition gets the same share of the clicks of one redirector, one second at a time', () => {
  const all = partitionsOf(new ClickLanes(journal, 4, 2), start, 8);
  for (const partition of [0, 1, 2, 3]) expect(all.filter((one) => one === partition)).toHaveLength(20);
  expect(all.filter((one, at) => at > 0 && one !== all[at - 1])).toHaveLength(7);
});

test('redirectors that begin at different partitions never use the same one at the same time', () => {
  const [one, other] = [0, 1].map((first) => partitionsOf(new ClickLanes(journal, 4, first), start, 8));
  expect(one?.filter((partition, at) => partition === other?.[at])).toEqual([]);
});

test('with one partition, all clicks go to it', () => {
  expect(new Set(partitionsOf(new ClickLanes(journal, 1), start, 8))).toEqual(new Set([0]));
});
