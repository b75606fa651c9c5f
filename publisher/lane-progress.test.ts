/** Tests when frames count as skipped by the sink or expired from the log, and are published again. */
import { expect, test } from 'vitest';
import { HOUR_MS } from '#common/durations.ts';
import { logAgeMaxMs } from '#common/log/log-stream.ts';
import { laneKeyOf } from '#common/log/marks.ts';
import { LaneProgress } from './lane-progress.ts';

const header = {
  producer_id: 'p',
  kind: 'click' as const,
  partition: 3,
  frame_no: 1,
  records: 1,
  written_at: 0,
  payloadBytes: 0,
};
/** An announcement for partition 0. Partition 3, which the frames belong to, has no owner. */
const announcement = { installation_id: 'i', partition: 0, committed_to: 0, lanes: [] };

const at = (ms: number) => ({ now: () => ms, elapsed: () => ms });

test('frames that expired from the log are published again, even if their partition has no owner', () => {
  const lanes = new LaneProgress();
  const [key, acknowledgedAt] = [laneKeyOf(header), 1_000_000];
  lanes.saw(header, key, 0);
  lanes.acknowledged(header, acknowledgedAt);
  expect(lanes.skipped(announcement, at(acknowledgedAt + logAgeMaxMs))).toEqual([]);
  const passed = lanes.skipped(announcement, at(acknowledgedAt + logAgeMaxMs + 1));
  expect(passed).toEqual([{ key, producerId: 'p', mark: 0 }]);
  // Only once, since they are then in flight.
  expect(lanes.skipped(announcement, at(acknowledgedAt + logAgeMaxMs + 2))).toEqual([]);
});

test.each([
  ['like', 0],
  ['an hour behind', -HOUR_MS],
])("with a clock %s the sink's, a frame is published again only a minute after it was acknowledged", (_, offset) => {
  const lanes = new LaneProgress();
  const sentAt = 1_000_000_000;
  lanes.saw(header, laneKeyOf(header), 0);
  lanes.acknowledged(header, sentAt + offset);
  const passed = (ms: number) =>
    lanes.skipped({ ...announcement, partition: 3, committed_to: sentAt + ms }, at(sentAt + ms + offset)).length;
  expect([passed(5_000), passed(59_000), passed(61_000)]).toEqual([0, 0, 1]);
});

test('a frame whose successors are committed already is published again when the sink has skipped it', () => {
  const lanes = new LaneProgress();
  const [key, acknowledgedAt] = [laneKeyOf(header), 1_000_000_000];
  for (const frame_no of [1, 2, 3, 4]) lanes.saw({ ...header, frame_no }, key, 0);
  const committed = { producer_id: 'p', kind: 'click' as const, partition: 3, mark: 0, ahead: [[2, 4]] as const };
  lanes.announced({ ...announcement, partition: 3, lanes: [committed] }, () => true);
  // Only this frame is sent, and the log treats it as a duplicate of a message that the sink had committed before
  // Postgres was restored to an earlier state.
  lanes.saw(header, key, 0);
  lanes.acknowledged(header, acknowledgedAt);
  const skipped = (ms: number) =>
    lanes.skipped({ ...announcement, partition: 3, committed_to: acknowledgedAt + ms }, at(acknowledgedAt + ms));
  expect(skipped(60_000)).toEqual([]);
  expect(skipped(60_001)).toEqual([{ key, producerId: 'p', mark: 0 }]);
});
