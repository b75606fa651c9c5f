/**
 * Tests how a journal is read: torn tails, damage, lost and rewritten frames, and reading again from an earlier position.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeDisk } from '#common/journal/disk.ts';
import { segmentName } from '#common/journal/segment.ts';
import { encodeFrame } from '#common/log/frame.ts';
import { FrameSet } from '#common/log/marks.ts';
import { ProducerReader } from './producer-reader.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reader-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const producer_id = '0'.repeat(26);

function frame(frame_no: number, partition = 0, payload = `{"n":${frame_no}}\n`): Buffer {
  const bytes = Buffer.alloc(64 + payload.length * 3);
  const header = { kind: 'click', partition, producer_id, frame_no, records: 1, written_at: 1 } as const;
  return bytes.subarray(0, encodeFrame(bytes, 0, header, payload));
}

function segment(no: number, ...frames: Buffer[]): void {
  writeFileSync(join(folder, segmentName(no)), Buffer.concat(frames));
}

function readerOf(isAlive: boolean): ProducerReader {
  const reader = new ProducerReader(nodeDisk, folder, producer_id);
  reader.isAlive = isAlive;
  reader.scan();
  return reader;
}

const isFinished = (reader: ProducerReader) => reader.segments.every((one) => one.isFinished);

/** Frame numbers up to the end. */
function readAll(reader: ProducerReader): number[] {
  const numbers: number[] = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) numbers.push(read.frame.header.frame_no);
  return numbers;
}

/** What is reported as lost once it was missing for a while, by partition. */
function lostOf(reader: ProducerReader): Record<number, readonly (readonly number[])[]> {
  readAll(reader);
  reader.floors(0);
  expect(reader.floors(9_999).flatMap(({ lost = [] }) => lost)).toEqual([]);
  return Object.fromEntries(reader.floors(10_000).flatMap(({ partition, lost }) => (lost ? [[partition, lost]] : [])));
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

test('segments are read in order, whatever the size of their frames', () => {
  const large = (no: number) => frame(no, 0, `"${'x'.repeat(70_000)}"\n`);
  segment(1, frame(1), ...Array.from({ length: 40 }, (_, n) => large(n + 2)));
  segment(2, frame(42), frame(1, 1));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([...Array.from({ length: 42 }, (_, n) => n + 1), 1]);
  expect(isFinished(reader)).toBe(true);
  expect(reader.damage).toBe('');
});

test('the torn tail of a dead producer is skipped wherever it was cut', () => {
  const whole = frame(2);
  for (let length = 0; length < whole.length; length++) {
    segment(1, frame(1), whole.subarray(0, length));
    const reader = readerOf(false);
    expect(readAll(reader)).toEqual([1]);
    expect(readAll(reader)).toEqual([]);
    expect(reader.segments.map(({ tornBytes }) => tornBytes)).toEqual([length]);
    expect(isFinished(reader)).toBe(true);
    expect(lostOf(reader)).toEqual({});
    expect(reader.damage).toBe('');
    reader.close();
  }
});

test("the reader waits for the rest of a live producer's torn tail", () => {
  const whole = frame(2);
  segment(1, frame(1), whole.subarray(0, 70));
  const reader = readerOf(true);
  expect(readAll(reader)).toEqual([1]);
  expect(isFinished(reader)).toBe(false);
  segment(1, frame(1), whole);
  expect(readAll(reader)).toEqual([2]);
});

test('a producer that was presumed dead but is alive is not finished', () => {
  segment(1, frame(1));
  const reader = readerOf(false);
  readAll(reader);
  expect(isFinished(reader)).toBe(true);
  reader.isAlive = true;
  expect(isFinished(reader)).toBe(false);
  segment(1, frame(1), frame(2));
  expect(readAll(reader)).toEqual([2]);
  expect(isFinished(reader)).toBe(false);
});

test('a segment that has grown since it was read to its end is not deleted before the rest was read', () => {
  segment(1, frame(1), frame(2).subarray(0, 70));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([1]);
  segment(1, frame(1), frame(2));
  expect(reader.removeOldest()).toBe(false);
  expect(isFinished(reader)).toBe(false);
  expect(readAll(reader)).toEqual([2]);
  expect(isFinished(reader)).toBe(true);
  expect(reader.removeOldest()).toBe(true);
  expect(reader.segments).toEqual([]);
});

test.each([true, false])(
  'around any flipped byte, all other frames are read, and only that frame is lost (live: %s)',
  (isAlive) => {
    const middle = frame(2);
    for (let at = 0; at < middle.length; at++) {
      segment(1, frame(1), flipped(middle, at), frame(3), frame(4));
      const reader = readerOf(isAlive);
      expect(lostOf(reader)).toEqual({ 0: [[2, 2, expect.any(Number)]] });
      reader.rewind();
      expect(readAll(reader)).toEqual([1, 3, 4]);
      expect(reader.damage).toContain(
        `byte ${frame(1).length}, ${middle.length} bytes, of ${join(folder, segmentName(1))}`,
      );
      // Nothing may delete the damaged file, from which a person may still read records.
      expect(reader.oldest).toBeUndefined();
      reader.close();
    }
  },
);

test('the records of a damaged frame are counted if its header survived, and one record for each other lost frame', () => {
  segment(1, frame(1), flipped(frame(2, 0, '{}\n{}\n{}\n'), 70), flipped(frame(3), 40), frame(4));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[2, 3, 2]] });
  const three = Buffer.alloc(200);
  const header = { kind: 'click', partition: 0, producer_id, frame_no: 2, records: 3, written_at: 1 } as const;
  const bytes = three.subarray(0, encodeFrame(three, 0, header, '{}\n{}\n{}\n'));
  segment(1, frame(1), flipped(bytes, 70), flipped(frame(3), 40), frame(4));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[2, 3, 4]] });
});

test('any number of damaged places, of any size, costs only the frames in them', () => {
  const large = (no: number) => frame(no, 0, `"${'x'.repeat(200_000)}"\n`);
  const zeros = (bytes: Buffer) => Buffer.alloc(bytes.length);
  const places = [
    zeros(large(2)),
    zeros(large(3)),
    zeros(large(4)),
    large(5),
    zeros(large(6)),
    large(7),
    flipped(large(8), 5),
    large(9),
  ];
  segment(1, large(1), ...places);
  const reader = readerOf(true);
  expect(lostOf(reader)).toEqual({
    0: [
      [2, 4, 3],
      [6, 6, 1],
      [8, 8, 1],
    ],
  });
  reader.rewind();
  expect(readAll(reader)).toEqual([1, 5, 7, 9]);
});

test('damage across the end of a segment, and a segment that is missing, are lost frames', () => {
  segment(1, frame(1), frame(2), frame(3).subarray(0, 70), Buffer.alloc(20));
  segment(2, Buffer.alloc(30), frame(4).subarray(20), frame(5), frame(1, 1));
  segment(4, frame(8), frame(3, 1));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([1, 2, 5, 1, 8, 3, 1, 2, 5, 1, 8, 3]);
  expect(lostOf(reader)).toEqual({
    0: [
      [3, 4, 2],
      [6, 7, 2],
    ],
    1: [[2, 2, 1]],
  });
  expect(reader.removeOldest()).toBe(true);
  expect(reader.segments.map(({ no }) => no)).toEqual([2, 4]);
});

test('the last frame is lost, not cut off, if its header is there and its length is right', () => {
  segment(1, frame(1), flipped(frame(2), 70));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[2, 2, 1]] });
  // Zeros behind it, as a file system leaves them after a power loss, change nothing.
  segment(1, frame(1), flipped(frame(2), 70), Buffer.alloc(4_096));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[2, 2, 1]] });
  segment(1, frame(1), Buffer.alloc(300_000));
  expect(lostOf(readerOf(false))).toEqual({});
});

test.each([
  ['in front of others', (): void => segment(1, frame(1), flipped(frame(1, 7), 70), frame(2))],
  [
    'at the end of a file',
    () => {
      segment(1, frame(1), flipped(frame(1, 7), 70));
      segment(2, frame(2));
    },
  ],
])('a damaged frame %s is lost, although no file has another of its lane', (_, write) => {
  write();
  const reader = readerOf(false);
  expect(lostOf(reader)).toEqual({ 7: [[1, 1, 1]] });
  expect(reader.floors(10_000).map(({ partition, floor }) => [partition, floor])).toEqual([
    [0, 1],
    [7, 1],
  ]);
  // The file is not deleted before the loss is counted.
  expect(reader.segments[0]?.frames.get(`${producer_id}:click:7`)).toMatchObject({ first: 1, last: 1 });
});

test('the magic text, a header or a whole frame of another producer in a payload does not mislead the search', () => {
  const other = Buffer.alloc(200);
  const header = { kind: 'click', partition: 0, frame_no: 9, records: 1, written_at: 1 } as const;
  const foreign = other.subarray(0, encodeFrame(other, 0, { ...header, producer_id: '1'.repeat(26) }, '{}\n'));
  const payload = `"SPF1 ${frame(9).toString('latin1', 0, 60)} ${'SPF1'.repeat(2_000)}"\n`;
  segment(1, frame(1), flipped(frame(2, 0, payload), 3), foreign, frame(3));
  const reader = readerOf(false);
  expect(lostOf(reader)).toEqual({ 0: [[2, 2, 1]] });
  reader.rewind();
  expect(readAll(reader)).toEqual([1, 3]);
});

test('a frame that was read before its place was damaged is lost once it is not there any more', () => {
  segment(1, frame(1), frame(2), frame(3));
  const reader = readerOf(true);
  const first = reader.next();
  expect(readAll(reader)).toEqual([2, 3]);
  segment(1, frame(1), flipped(frame(2), 70), frame(3));
  reader.rewind(first.state === 'frame' ? { segment: 1, offset: frame(1).length } : undefined);
  expect(readAll(reader)).toEqual([3, 1, 3]);
  expect(lostOf(reader)).toEqual({ 0: [[2, 2, 1]] });
});

test('a file that someone deletes is forgotten, and what only it had is lost', () => {
  segment(1, frame(1));
  segment(2, frame(2));
  segment(3, frame(3));
  const reader = readerOf(true);
  expect(readAll(reader)).toEqual([1, 2, 3]);
  rmSync(join(folder, segmentName(2)));
  reader.scan();
  expect(readAll(reader)).toEqual([1, 3]);
  expect(lostOf(reader)).toEqual({ 0: [[2, 2, 1]] });
  expect(reader.damage).toContain('frames 2 to 2');
});

test('a file that the system cannot read is reported and read once it can be, and nothing in it is lost', () => {
  segment(1, frame(1));
  mkdirSync(join(folder, segmentName(2)));
  segment(3, frame(3));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([1]);
  expect(reader.next().state).toBe('blocked');
  expect(reader.damage).toContain(`${segmentName(2)} cannot be read: EISDIR`);
  expect([isFinished(reader), reader.floors(0), reader.floors(60_000)]).toEqual([false, [], []]);
  rmSync(join(folder, segmentName(2)), { recursive: true });
  segment(2, frame(2));
  expect(readAll(reader)).toEqual([2, 3]);
  expect(reader.damage).toBe('');
  expect(lostOf(reader)).toEqual({});
});

test('while the system cannot list a folder, nothing of its journal is forgotten, and reading is not at its end', () => {
  segment(1, frame(1));
  let code = '';
  const names = (path: string) => {
    if (code !== '') throw Object.assign(new Error(code), { code });
    return nodeDisk.names(path);
  };
  const reader = new ProducerReader({ ...nodeDisk, names }, folder, producer_id);
  reader.scan();
  expect(readAll(reader)).toEqual([1]);
  segment(2, frame(2));
  for (code of ['EMFILE', 'EIO', 'EACCES']) {
    reader.scan();
    expect([reader.segments.length, reader.next().state]).toEqual([1, 'blocked']);
    expect(reader.damage).toBe(`${folder} cannot be listed: ${code}`);
  }
  code = '';
  reader.scan();
  expect(readAll(reader)).toEqual([2]);
  expect([reader.damage, lostOf(reader)]).toEqual(['', {}]);
});

test('the last frame of a lane is reported as lost although all intact ones of the lane were deleted', () => {
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(2), flipped(frame(2, 1), 70));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([1, 1, 2]);
  expect(reader.removeOldest()).toBe(true);
  expect(lostOf(reader)).toEqual({ 1: [[2, 2, 1]] });
  expect(reader.lacksAny(() => new FrameSet(1))).toBe(true);
  expect(reader.lacksAny(() => new FrameSet(2))).toBe(false);
});

test('the journal of a folder that someone deletes ends', () => {
  segment(1, frame(1), flipped(frame(2), 70), frame(3));
  const reader = readerOf(false);
  readAll(reader);
  rmSync(folder, { recursive: true });
  reader.scan();
  expect([reader.segments, reader.damage, readAll(reader)]).toEqual([[], '', []]);
  reader.removeFolder();
  mkdirSync(folder);
});

test('frames that were written again after an error are not lost, whichever comes first', () => {
  segment(1, frame(1), frame(2), frame(3).subarray(0, 80));
  segment(2, frame(2), frame(3), frame(4));
  expect(lostOf(readerOf(false))).toEqual({});
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(4), frame(2, 1));
  segment(3, frame(2), frame(3), frame(4), frame(2, 1), frame(5));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual([1, 1, 4, 2, 2, 3, 4, 2, 5]);
  expect(lostOf(reader)).toEqual({});
  expect(reader.floors(0).map(({ partition, floor }) => [partition, floor])).toEqual([
    [0, 1],
    [1, 1],
  ]);
  // Also if the first segment is gone: the later frame alone would suggest that older ones are.
  rmSync(join(folder, segmentName(1)));
  const later = readerOf(false);
  expect(later.next().state).toBe('frame');
  expect(later.floors(0)).toEqual([]);
  expect(lostOf(later)).toEqual({});
  expect(later.floors(0)).toMatchObject([{ floor: 2 }, { floor: 2 }]);
});

test('a missing frame is reported wherever reading starts again, until it is found', () => {
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(2, 1), frame(3), frame(3, 1));
  const reader = readerOf(true);
  const positions = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) positions.push(read.frame.position);
  reader.rewind(positions[4]);
  expect(lostOf(reader)).toEqual({ 0: [[2, 2, 1]] });
  segment(3, frame(2), frame(3));
  reader.scan();
  expect(lostOf(reader)).toEqual({});
});

test('frames before the first one are no loss if earlier segments were deleted, and are one if none was', () => {
  segment(2, frame(4), frame(6));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[5, 5, 1]] });
  rmSync(join(folder, segmentName(2)));
  segment(1, frame(2), frame(3));
  expect(lostOf(readerOf(false))).toEqual({ 0: [[1, 1, 1]] });
});

test('reading continues from a position, and from the first remaining segment', () => {
  segment(1, frame(1), frame(2));
  segment(2, frame(3), frame(4), frame(5));
  segment(3, frame(6));
  const reader = readerOf(true);
  const positions = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) positions.push(read.frame.position);
  reader.rewind(positions[3]);
  expect(readAll(reader)).toEqual([4, 5, 6]);
  reader.removeOldest();
  reader.rewind();
  expect(readAll(reader)).toEqual([3, 4, 5, 6]);
});

test('any number of frames of the maximum size can be read', () => {
  const large = (no: number) => frame(no, 0, `"${'x'.repeat(220_000)}"\n`);
  segment(1, ...Array.from({ length: 10 }, (_, n) => large(n + 1)));
  expect(readAll(readerOf(false))).toHaveLength(10);
});

test('a segment that is being reread is not finished', () => {
  segment(1, frame(1));
  segment(2, frame(2));
  const reader = readerOf(true);
  readAll(reader);
  expect(reader.segments.map((one) => one.isFinished)).toEqual([true, false]);
  reader.rewind();
  expect(reader.segments.map((one) => one.isFinished)).toEqual([false, false]);
});

test('a reader that went back to the first frame is not moved forward by a rewind to a later position', () => {
  segment(1, frame(1), frame(2));
  segment(2, frame(3), frame(4));
  const reader = readerOf(false);
  const positions = [1, 2, 3, 4].map(() => {
    const read = reader.next();
    if (read.state !== 'frame') throw new Error('four frames were written');
    return read.frame.position;
  });
  for (const position of positions) {
    reader.rewind();
    reader.rewind(position);
    expect(readAll(reader)).toEqual([1, 2, 3, 4]);
  }
  reader.rewind(positions[2]);
  reader.rewind(positions[3]);
  expect(readAll(reader)).toEqual([3, 4]);
});
