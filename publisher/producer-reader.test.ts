/**
 * Tests how a journal is read: torn tails, damage, gaps, rewritten frames, and reading again from an earlier position.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeDisk } from '#common/journal/disk.ts';
import { segmentName } from '#common/journal/segment.ts';
import { encodeFrame } from '#common/log/frame.ts';
import { ProducerReader, type ReadOutcome } from './producer-reader.ts';

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

/** Frame numbers up to the end or the damage. */
function readAll(reader: ProducerReader): { numbers: number[]; end: ReadOutcome['state'] } {
  const numbers: number[] = [];
  for (;;) {
    const read = reader.next();
    if (read.state === 'skipped') continue;
    if (read.state !== 'frame') return { numbers, end: read.state };
    numbers.push(read.frame.header.frame_no);
  }
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
  const { numbers, end } = readAll(reader);
  expect(numbers).toEqual([...Array.from({ length: 42 }, (_, n) => n + 1), 1]);
  expect(end).toBe('end');
  expect(reader.isFinished).toBe(true);
});

test('the torn tail of a dead producer is skipped wherever it was cut', () => {
  const whole = frame(2);
  for (let length = 0; length < whole.length; length++) {
    segment(1, frame(1), whole.subarray(0, length));
    const reader = readerOf(false);
    expect(readAll(reader)).toEqual({ numbers: [1], end: 'end' });
    expect(reader.tornBytes).toBe(length);
    expect(reader.isFinished).toBe(true);
    reader.close();
  }
});

test("the reader waits for the rest of a live producer's torn tail", () => {
  const whole = frame(2);
  segment(1, frame(1), whole.subarray(0, 70));
  const reader = readerOf(true);
  expect(readAll(reader)).toEqual({ numbers: [1], end: 'end' });
  expect(reader.isFinished).toBe(false);
  segment(1, frame(1), whole);
  expect(readAll(reader)).toEqual({ numbers: [2], end: 'end' });
});

test('a producer that was presumed dead but is alive is not finished', () => {
  segment(1, frame(1));
  const reader = readerOf(false);
  readAll(reader);
  expect(reader.isFinished).toBe(true);
  reader.isAlive = true;
  expect(reader.isFinished).toBe(false);
  segment(1, frame(1), frame(2));
  expect(readAll(reader)).toEqual({ numbers: [2], end: 'end' });
  expect(reader.isFinished).toBe(false);
});

test('a segment that has grown since it was read to its end is not deleted before the rest was read', () => {
  segment(1, frame(1), frame(2).subarray(0, 70));
  const reader = readerOf(false);
  expect(readAll(reader).numbers).toEqual([1]);
  segment(1, frame(1), frame(2));
  expect(reader.removeFirst()).toBe(false);
  expect(reader.isFinished).toBe(false);
  expect(readAll(reader).numbers).toEqual([2]);
  expect(reader.isFinished).toBe(true);
  expect(reader.removeFirst()).toBe(true);
  expect(reader.segments).toEqual([]);
});

test('any flipped byte before an intact frame is damage, and the frames before it are still read', () => {
  const middle = frame(2);
  for (let at = 0; at < middle.length; at++) {
    segment(1, frame(1), flipped(middle, at), frame(3), frame(4));
    const reader = readerOf(false);
    expect(readAll(reader)).toEqual({ numbers: [1], end: 'damaged' });
    expect(reader.isFinished).toBe(false);
    reader.close();
  }
});

test('frames that were written again after an error are read once', () => {
  segment(1, frame(1), frame(2), frame(3).subarray(0, 80));
  segment(2, frame(2), frame(3), frame(4));
  expect(readAll(readerOf(false))).toEqual({ numbers: [1, 2, 3, 4], end: 'end' });
});

test('a gap in the numbers of a lane is damage', () => {
  segment(1, frame(1), frame(2));
  segment(2, frame(4));
  expect(readAll(readerOf(false))).toEqual({ numbers: [1, 2], end: 'damaged' });
});

test('a gap is still detected when reading starts again after it, until the missing frame is found', () => {
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(2, 1), frame(3), frame(3, 1));
  const reader = readerOf(false);
  const positions = [];
  for (let read = reader.next(); read.state !== 'damaged'; read = reader.next())
    if (read.state === 'frame') positions.push(read.frame.position);
  reader.rewind(positions[2]);
  expect(readAll(reader)).toEqual({ numbers: [2, 3], end: 'damaged' });
  segment(3, frame(2), frame(3));
  reader.scan();
  reader.rewind(positions[2]);
  expect(readAll(reader)).toEqual({ numbers: [2, 3, 2, 3], end: 'end' });
  reader.rewind();
  expect(readAll(reader)).toEqual({ numbers: [1, 1, 2, 3, 2, 3], end: 'end' });
});

test('a gap is still damage when reading starts again behind it, and what follows it is kept', () => {
  segment(1, frame(1), frame(3));
  segment(2, frame(1, 1), frame(2, 1));
  const reader = readerOf(false);
  expect(reader.next().state).toBe('frame');
  expect(reader.next().state).toBe('skipped');
  const read = reader.next();
  if (read.state !== 'frame') throw new Error('the other lane has no gap');
  expect(readAll(reader)).toEqual({ numbers: [2], end: 'damaged' });
  reader.rewind(read.frame.position);
  expect(readAll(reader)).toEqual({ numbers: [1, 2], end: 'damaged' });
  expect(reader.segments.map((one) => one.isFinished)).toEqual([false, false]);
});

test('a gap is not filled by an older frame that was rewritten behind it', () => {
  segment(1, frame(1), frame(2));
  segment(2, frame(3), frame(5), frame(2));
  const reader = readerOf(false);
  const positions = [1, 2, 3].map(() => {
    const read = reader.next();
    if (read.state !== 'frame') throw new Error('three frames were written');
    return read.frame.position;
  });
  reader.rewind(positions[2]);
  expect(readAll(reader)).toMatchObject({ end: 'damaged' });
  expect(reader.segments.map((one) => one.isFinished)).toEqual([true, false]);
});

test('reading continues from a position, and from the first remaining segment', () => {
  segment(1, frame(1), frame(2));
  segment(2, frame(3), frame(4), frame(5));
  segment(3, frame(6));
  const reader = readerOf(true);
  const positions = [];
  for (let read = reader.next(); read.state === 'frame'; read = reader.next()) positions.push(read.frame.position);
  reader.rewind(positions[3]);
  expect(readAll(reader).numbers).toEqual([4, 5, 6]);
  reader.removeFirst();
  reader.rewind();
  expect(readAll(reader).numbers).toEqual([3, 4, 5, 6]);
});

test('a gap is permanent damage, even before the first frame of a producer', () => {
  segment(1, frame(1), frame(3));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual({ numbers: [1], end: 'damaged' });
  expect(readAll(reader)).toEqual({ numbers: [], end: 'damaged' });
  expect(reader.isFinished).toBe(false);
  segment(1, frame(2), frame(3));
  expect(readAll(readerOf(false))).toEqual({ numbers: [], end: 'damaged' });
});

test('any number of frames of the maximum size can be read', () => {
  const large = (no: number) => frame(no, 0, `"${'x'.repeat(220_000)}"\n`);
  segment(1, ...Array.from({ length: 10 }, (_, n) => large(n + 1)));
  expect(readAll(readerOf(false)).numbers).toHaveLength(10);
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
    expect(readAll(reader).numbers).toEqual([1, 2, 3, 4]);
  }
  reader.rewind(positions[2]);
  reader.rewind(positions[3]);
  expect(readAll(reader).numbers).toEqual([3, 4]);
});

test('frames that were rewritten after a later frame are read in order, and no segment is finished before that', () => {
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(4), frame(2, 1));
  segment(3, frame(2), frame(3), frame(4), frame(2, 1), frame(5));
  const reader = readerOf(false);
  const first = [1, 2, 3, 4].map(() => reader.next());
  expect(first.map((read) => (read.state === 'frame' ? read.frame.header.frame_no : read.state))).toEqual([
    1,
    1,
    'skipped',
    2,
  ]);
  expect(reader.segments.map((one) => one.isFinished)).toEqual([true, false, false]);
  expect(readAll(reader)).toEqual({ numbers: [2, 3, 4, 5], end: 'end' });
  expect(reader.isFinished).toBe(true);
  expect(reader.floors.map(({ partition, floor }) => [partition, floor])).toEqual([
    [0, 1],
    [1, 1],
  ]);
});

test('frames that were rewritten after a later frame are also read if the first segment is gone', () => {
  segment(2, frame(4));
  segment(3, frame(2), frame(3), frame(4), frame(5));
  const reader = readerOf(false);
  expect(reader.next().state).toBe('frame');
  // The later frame alone would suggest that older ones are gone.
  expect(reader.floors).toEqual([]);
  expect(readAll(reader)).toEqual({ numbers: [2, 3, 5], end: 'end' });
  expect(reader.floors).toMatchObject([{ floor: 2 }]);
});

test('segments after a gap are kept, even if other lanes have no gap', () => {
  segment(1, frame(1), frame(1, 1));
  segment(2, frame(3));
  segment(3, frame(2, 1));
  const reader = readerOf(false);
  expect(readAll(reader)).toEqual({ numbers: [1, 1, 2], end: 'damaged' });
  expect(reader.segments.map((one) => one.isFinished)).toEqual([true, false, false]);
});
