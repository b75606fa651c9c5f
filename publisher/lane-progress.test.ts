/** Tests when frames count as skipped by the sink or expired from the log, and are published again. */
import { expect, test } from 'vitest';
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
const announcement = { installation_id: 'i', partition: 0, lanes: [] };

test('frames that expired from the log are published again, even if their partition has no owner', () => {
  const lanes = new LaneProgress();
  const [key, acknowledgedAt] = [laneKeyOf(header), 1_000_000];
  lanes.saw(header, key, 0);
  lanes.acknowledged(header, acknowledgedAt);
  expect(lanes.skipped(announcement, acknowledgedAt + logAgeMaxMs)).toEqual([]);
  const passed = lanes.skipped(announcement, acknowledgedAt + logAgeMaxMs + 1);
  expect(passed).toEqual([{ key, producerId: 'p', mark: 0 }]);
  // Only once, since they are then in flight.
  expect(lanes.skipped(announcement, acknowledgedAt + logAgeMaxMs + 2)).toEqual([]);
});

test('a frame is published again only a minute after it was acknowledged, whatever the wall clocks show', () => {
  const lanes = new LaneProgress();
  const acknowledgedAt = 1_000_000_000;
  lanes.saw(header, laneKeyOf(header), 0);
  lanes.acknowledged(header, acknowledgedAt);
  const passed = (committedMs: number, nowMs: number) => {
    const committed_ago = nowMs - committedMs;
    return lanes.skipped({ ...announcement, partition: 3, committed_ago }, acknowledgedAt + nowMs).length;
  };
  expect([passed(5_000, 5_000), passed(59_000, 90_000), passed(61_000, 90_000)]).toEqual([0, 0, 1]);
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
    lanes.skipped({ ...announcement, partition: 3, committed_ago: 0 }, acknowledgedAt + ms);
  expect(skipped(60_000)).toEqual([]);
  expect(skipped(60_001)).toEqual([{ key, producerId: 'p', mark: 0 }]);
});
