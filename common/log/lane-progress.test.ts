import { expect, test } from 'vitest';
import { LaneProgress } from './lane-progress.ts';
import { logAgeMaxMs } from './log-stream.ts';
import { laneKeyOf } from './marks.ts';

const header = {
  producer_id: 'p',
  kind: 'click' as const,
  partition: 3,
  frame_no: 1,
  records: 1,
  written_at: 0,
  payloadBytes: 0,
};
/** Of a partition that is read; nobody reads the third. */
const announcement = { installation_id: 'i', partition: 0, committed_to: 0, lanes: [] };

test('frames that the log has thrown out for their age are published again, though nobody reads their partition', () => {
  const lanes = new LaneProgress();
  const [key, acknowledgedAt] = [laneKeyOf(header), 1_000_000];
  lanes.saw(header, key);
  lanes.acknowledged(header, acknowledgedAt);
  expect(lanes.passedOver(announcement, acknowledgedAt + logAgeMaxMs)).toEqual([]);
  const passed = lanes.passedOver(announcement, acknowledgedAt + logAgeMaxMs + 1);
  expect(passed).toEqual([{ key, producerId: 'p', mark: 0 }]);
  // Once; then they are on their way.
  expect(lanes.passedOver(announcement, acknowledgedAt + logAgeMaxMs + 2)).toEqual([]);
});
