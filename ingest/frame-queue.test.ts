import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { encodeFrame, readFrame } from '#common/log/frame.ts';
import type { LostRange } from '#common/log/marks.ts';
import { systemTime } from '#common/time.ts';
import type { LogFrame } from './formed-batch.ts';
import { FrameQueue } from './frame-queue.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => vi.useRealTimers());

const limits = { batchRows: 5_000, batchBytes: 1_000_000, flushIntervalMs: 1_000 };

function frame(frame_no: number, records: number, payload = ''): LogFrame {
  const room = Buffer.alloc(100_000);
  const header = {
    kind: 'click',
    partition: 0,
    producer_id: 'p'.repeat(26),
    frame_no,
    records,
    written_at: 1,
  } as const;
  const bytes = room.subarray(0, encodeFrame(room, 0, header, payload));
  const read = readFrame(bytes, 0);
  if (read.state !== 'frame') throw new Error(read.state);
  return { header: read.header, bytes, streamTime: 1 };
}

/** When the next batch was taken, in ms from the call, and the numbers of its frames. */
async function taken(queue: FrameQueue): Promise<[ms: number, frames: number[]]> {
  const from = performance.now();
  let found: [number, number[]] | undefined;
  void queue.take().then((frames) => {
    found = [performance.now() - from, frames.map(({ header }) => header.frame_no)];
  });
  for (let ms = 0; found === undefined && ms < 5_000; ms += 10) await vi.advanceTimersByTimeAsync(10);
  return found ?? [Number.NaN, []];
}

test('few records wait for half of the flush interval, many wait for all of it, and a full batch does not wait', async () => {
  const queue = new FrameQueue(limits, [], systemTime, () => undefined);
  queue.push(frame(1, 10));
  expect(await taken(queue)).toEqual([500, [1]]);
  queue.push(frame(2, 400));
  queue.push(frame(3, 400));
  queue.push(frame(4, 400));
  expect(await taken(queue)).toEqual([1_000, [2, 3, 4]]);
  for (let n = 5; n < 16; n++) queue.push(frame(n, 500));
  expect(await taken(queue)).toEqual([0, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]]);
  const [ms, rest] = await taken(queue);
  expect([ms > 450, rest]).toEqual([true, [15]]);
});

test('a batch is also limited by the bytes of its rows, and a larger frame forms a batch of its own', async () => {
  const queue = new FrameQueue({ ...limits, batchBytes: 20_000 }, [], systemTime, () => undefined);
  for (const n of [1, 2, 3]) queue.push(frame(n, 1, 'x'.repeat(9_000)));
  expect(await taken(queue)).toEqual([0, [1, 2]]);
  queue.push(frame(4, 1, 'x'.repeat(90_000)));
  expect(await taken(queue)).toEqual([0, [3]]);
  expect(await taken(queue)).toEqual([0, [4]]);
  expect(queue.waitingBytes).toBe(0);
});

test('each frame is taken once, and a committed frame not at all', async () => {
  const lane = { producer_id: 'p'.repeat(26), kind: 'click', partition: 0 } as const;
  const queue = new FrameQueue(
    { ...limits, batchBytes: 20_000 },
    [{ ...lane, mark: 2, ahead: [[5, 6]] }],
    systemTime,
    () => undefined,
  );
  for (const n of [1, 3, 3, 5, 7]) queue.push(frame(n, 1));
  expect(queue.counters).toEqual({ frames: 2, committed_frames: 0, known_frames: 3, frames_without_room: 0 });
  const header = frame(7, 1).header;
  expect(queue.marksWith([{ header }])).toEqual([{ ...lane, mark: 2, ahead: [[5, 7]] }]);
});

test('frames that a journal has lost are closed once each, unless one of them is in progress or they are far above those seen', () => {
  const lane = { producer_id: 'p'.repeat(26), kind: 'click', partition: 0, floor: 1 } as const;
  const { floor: _, ...name } = lane;
  const marks = [{ ...name, mark: 2, ahead: [[5, 6] as const, [9, 9] as const] }];
  const queue = new FrameQueue(limits, marks, systemTime, () => undefined);
  const closing = (lost: LostRange[], floor = 1) => queue.gapsIn([{ ...lane, floor, lost }]);
  expect(closing([[3, 4, 500]])).toEqual([
    { below: [], lost: [[3, 4, 500]], marks: { ...name, mark: 6, ahead: [[9, 9]] } },
  ]);
  // Of frames that are partly committed, how many records the others have is not known.
  expect(closing([[4, 8, 500]])).toEqual([
    {
      below: [],
      lost: [
        [4, 4, 1],
        [7, 8, 2],
      ],
      marks: { ...name, mark: 2, ahead: [[4, 9]] },
    },
  ]);
  expect(closing([[1, 2, 2]])).toEqual([]);
  expect(closing([[4, 4, 7]], 5)).toEqual([
    { below: [[3, 3]], lost: [[4, 4, 7]], marks: { ...name, mark: 6, ahead: [[9, 9]] } },
  ]);
  expect(closing([[10, 10, 1]])).toMatchObject([{ lost: [[10, 10, 1]] }]);
  expect(closing([[11, 11, 1]])).toEqual([]);
  queue.push(frame(4, 1));
  expect(closing([[3, 4, 2]])).toEqual([]);
  expect(closing([[7, 8, 2]])).toHaveLength(1);
});

test('a lost frame is closed although no other of its lane ever came, once the marks of the lane are known', () => {
  const lane = { producer_id: 'p'.repeat(26), kind: 'click', partition: 0 } as const;
  const queue = new FrameQueue(limits, [], systemTime, () => undefined);
  const floor = { ...lane, floor: 1, lost: [[1, 1, 4] as const] };
  expect(queue.gapsIn([floor])).toEqual([]);
  queue.learn(0, queue.lanesToLearn([floor]), []);
  expect(queue.gapsIn([floor])).toEqual([{ below: [], lost: [[1, 1, 4]], marks: { ...lane, mark: 1, ahead: [] } }]);
});

test('a gap below a journal’s oldest frame is closed, unless one of its frames is in progress or the lane’s mark is unread', () => {
  const lane = { producer_id: 'p'.repeat(26), kind: 'click', partition: 0 } as const;
  const marks = [{ ...lane, mark: 2, ahead: [[5, 6] as const, [9, 9] as const] }];
  const queue = new FrameQueue(limits, marks, systemTime, () => undefined);
  const closed = { below: [[3, 4]], lost: [], marks: { ...lane, mark: 6, ahead: [[9, 9]] } };
  expect(queue.gapsIn([{ ...lane, floor: 6 }])).toEqual([closed]);
  expect(queue.gapsIn([{ ...lane, floor: 3 }])).toEqual([]);
  // No frame above those seen is closed, whatever floor is claimed.
  const all = {
    below: [
      [3, 4],
      [7, 8],
    ],
    lost: [],
    marks: { ...lane, mark: 9, ahead: [] },
  };
  expect(queue.gapsIn([{ ...lane, floor: Number.MAX_SAFE_INTEGER }])).toEqual([all]);
  queue.push(frame(4, 1));
  expect(queue.gapsIn([{ ...lane, floor: 6 }])).toEqual([]);
  const unknown = new FrameQueue(limits, [], systemTime, () => undefined);
  unknown.push(frame(7, 1));
  expect(unknown.gapsIn([{ ...lane, floor: 7 }])).toEqual([]);
  expect(unknown.lanesToLearn([frame(7, 1).header, frame(8, 1).header])).toEqual([
    { producer_id: lane.producer_id, kind: 'click' },
  ]);
  unknown.learn(0, unknown.lanesToLearn([frame(7, 1).header]), marks);
  expect(unknown.lanesToLearn([frame(7, 1).header])).toEqual([]);
  expect(unknown.withoutCommitted([frame(6, 1), frame(7, 1)]).map(({ header }) => header.frame_no)).toEqual([7]);
});

test('taking a batch frees its bytes for the next one', async () => {
  const queue = new FrameQueue({ ...limits, batchBytes: 20_000 }, [], systemTime, () => undefined);
  queue.push(frame(1, 1, 'x'.repeat(90_000)));
  expect(await taken(queue)).toEqual([0, [1]]);
  queue.push(frame(2, 1));
  expect(await taken(queue)).toEqual([500, [2]]);
  queue.stop();
  queue.push(frame(3, 1));
  expect(await taken(queue)).toEqual([0, []]);
});
