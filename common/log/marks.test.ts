import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  decodeAnnouncement,
  decodeMarksRequest,
  encodeAnnouncements,
  encodeMarksRequest,
  FrameSet,
  rangesAheadMax,
} from './marks.ts';

test('a frame set contains exactly what was added, in any order, and its mark has no hole below', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 80 }), (numbers) => {
      const set = new FrameSet();
      for (const no of numbers) set.add(no);
      const there = new Set(numbers);
      for (let no = 1; no <= 61; no++) expect(set.has(no)).toBe(there.has(no));
      let mark = 0;
      while (there.has(mark + 1)) mark++;
      expect(set.mark).toBe(mark);
      const copy = new FrameSet(set.mark, set.ahead);
      for (let no = 1; no <= 61; no++) expect(copy.has(no)).toBe(there.has(no));
    }),
  );
});

test('a frame that would create one range too many has no room, and one that joins a range has', () => {
  const set = new FrameSet();
  for (let no = 1; no <= rangesAheadMax; no++) set.add(no * 2);
  expect(set.ahead).toHaveLength(rangesAheadMax);
  expect(set.hasRoomFor(rangesAheadMax * 2 + 2)).toBe(false);
  expect(set.hasRoomFor(rangesAheadMax * 2 + 1)).toBe(true);
  expect(set.hasRoomFor(1)).toBe(true);
});

test('an announcement is read back, and an invalid one is rejected', () => {
  const lanes = Array.from({ length: 250 }, (_, n) => ({
    producer_id: `p${n}`,
    kind: 'click' as const,
    partition: 0,
    mark: n,
    ahead: [[n + 2, n + 3]] as const,
  }));
  const read = encodeAnnouncements({ installation_id: '', partition: 0, committed_ago: 5, lanes }).map(
    decodeAnnouncement,
  );
  expect(read.flatMap((one) => one?.lanes)).toEqual(lanes);
  for (const text of [
    '',
    '{}',
    '[]',
    '{"partition":0,"committed_ago":-1,"lanes":[]}',
    '{"partition":0,"committed_ago":1,"lanes":[{}]}',
  ]) {
    expect(decodeAnnouncement(Buffer.from(text))).toBeUndefined();
  }
});

test('a frame that closes a hole takes the mark to the end of the range after it', () => {
  const set = new FrameSet();
  for (const no of [2, 3, 5, 1]) set.add(no);
  expect([set.mark, set.ahead]).toEqual([3, [[5, 5]]]);
});

test('the next frame always has room, however many ranges are ahead', () => {
  const set = new FrameSet(
    0,
    Array.from({ length: rangesAheadMax }, (_, n) => [n * 3 + 10, n * 3 + 10] as const),
  );
  expect([1, 2, 8, 9, 11].map((no) => set.hasRoomFor(no))).toEqual([true, false, false, true, true]);
});

test('an announcement with an invalid lane is rejected', () => {
  const lane = { producer_id: 'p', kind: 'click', partition: 0, mark: 1, ahead: [] };
  for (const wrong of [{ ahead: [[1, 'x']] }, { ahead: [[-1, 2]] }, { ahead: 7 }, { mark: -1 }, { kind: 'x' }]) {
    const text = JSON.stringify({ partition: 0, committed_ago: 1, lanes: [{ ...lane, ...wrong }] });
    expect(decodeAnnouncement(Buffer.from(text)), text).toBeUndefined();
  }
});

test('a range is in the set only if each of its frames is', () => {
  const set = new FrameSet(10, [
    [13, 20],
    [30, 30],
  ]);
  const ranges = [
    [1, 10],
    [1, 11],
    [13, 20],
    [14, 15],
    [12, 20],
    [13, 21],
    [20, 30],
    [30, 30],
    [8, 13],
  ] as const;
  for (const [from, to] of ranges) {
    const isAll = Array.from({ length: to - from + 1 }, (_, n) => from + n).every((frameNo) => set.has(frameNo));
    expect([from, to, set.hasAll(from, to)]).toEqual([from, to, isAll]);
  }
});

test('a request for marks is read back as it was written, and earlier versions can read its names', () => {
  const floors = [{ producer_id: 'a', kind: 'event' as const, partition: 3, floor: 17 }];
  const bytes = encodeMarksRequest(['a', 'b'], floors);
  expect(decodeMarksRequest(bytes)).toEqual({ producerIds: new Set(['a', 'b']), floors });
  expect(JSON.parse(bytes.toString()).filter((one: unknown) => typeof one === 'string')).toEqual(['a', 'b']);
  for (const text of ['', '{}', '"a"', 'null']) expect(decodeMarksRequest(Buffer.from(text))).toBeUndefined();
  expect(decodeMarksRequest(Buffer.from('[1,null,{"floor":1}]'))).toEqual({ producerIds: new Set(), floors: [] });
});

test('the union of two sets has the frames of both, whichever mark is higher', () => {
  const one = new FrameSet(18, [
    [25, 26],
    [30, 31],
  ]);
  const other = new FrameSet(0, [[19, 29]]);
  for (const both of [one.union(other), other.union(one)]) {
    expect([both.mark, both.ahead]).toEqual([31, []]);
  }
  const apart = new FrameSet(3).union(new FrameSet(1, [[7, 9]]));
  expect([apart.mark, apart.ahead]).toEqual([3, [[7, 9]]]);
  expect(new FrameSet().union(new FrameSet()).mark).toBe(0);
});
