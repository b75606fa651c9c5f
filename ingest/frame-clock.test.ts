import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { encodeFrame, payloadOf, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import type { LogFrame } from './formed-batch.ts';
import { isClockRight, withLogTime } from './frame-clock.ts';
import { decodeClicks } from './record-decoder.ts';
import { testClick } from './testing/pipeline-harness.ts';

const streamTime = Date.UTC(2026, 10, 22);
const year = 365 * DAY_MS;

function frameOf(lines: readonly string[], written_at: number, kind: RecordKind = 'click'): LogFrame {
  const bytes = Buffer.alloc(100_000);
  const header = { kind, partition: 0, producer_id: 'p'.repeat(26), frame_no: 7, records: lines.length, written_at };
  const length = encodeFrame(bytes, 0, header, `${lines.join('\n')}\n`);
  const read = readFrame(bytes, 0);
  if (read.state !== 'frame') throw new Error(read.state);
  return { header: read.header, bytes: bytes.subarray(0, length), streamTime };
}

const textOf = ({ bytes, header }: LogFrame) => payloadOf(bytes, header).toString();

test('a clock counts as wrong before 2020 and from an hour ahead of the log on, and as right in between', () => {
  for (const time of [Date.UTC(2020, 0, 1), streamTime - 90 * DAY_MS, streamTime, streamTime + HOUR_MS]) {
    expect(isClockRight(time, streamTime)).toBe(true);
  }
  for (const time of [0, Date.UTC(2019, 11, 31), streamTime + 3_600_001, streamTime + 5 * year, Number.NaN, -1]) {
    expect(isClockRight(time, streamTime)).toBe(false);
  }
});

test('clicks of an edge with a wrong clock get the time of the log and keep the intervals between them', () => {
  for (const edgeNow of [DAY_MS, Date.UTC(2019, 5, 1), streamTime + 5 * year]) {
    const frame = frameOf([testClick(edgeNow - 3), testClick(edgeNow)], edgeNow);
    const moved = withLogTime(frame);
    expect(decodeClicks(textOf(moved), 2)?.map((click) => click.time)).toEqual([streamTime - 3, streamTime]);
    expect(readFrame(moved.bytes, 0)).toMatchObject({ state: 'frame', header: { ...moved.header, frame_no: 7 } });
    expect(withLogTime(frame).bytes.equals(moved.bytes)).toBe(true);
  }
});

test('fields that an app sent stay unchanged, whatever their names', () => {
  const sent = '{"name":"a","time":12345678901234567890,"received_at":1,"properties":{"time":5}}';
  const line = `{"v":1,"app_id":"${newId('app', 1)}","received_at":1000,"user_agent":"\\",\\"time\\":1","event_id":"e","time":990,"sent":${sent}}`;
  const moved = textOf(withLogTime(frameOf([line], 1_000, 'event'))).trimEnd();
  expect(moved).toBe(
    line
      .replace('"received_at":1000', `"received_at":${streamTime}`)
      .replace('"time":990', `"time":${streamTime - 10}`),
  );
  const batch = `{"v":1,"received_at":1000,"batch":{"id_base":"x","body":{"events":[{"name":"a","time":7}]}}}`;
  const movedBatch = textOf(withLogTime(frameOf([batch], 1_000, 'event'))).trimEnd();
  expect(movedBatch).toBe(batch.replace('"received_at":1000', `"received_at":${streamTime}`));
});

test('an install time far in the past, sent by an app, stays unchanged', () => {
  const ahead = streamTime + 5 * year;
  const said = streamTime - year;
  const line = (at: number) => `{"v":1,"time":${ahead},"installed_at":${at},"properties":{"installed_at":1}}`;
  expect(textOf(withLogTime(frameOf([line(said)], ahead, 'install')))).toContain(`"installed_at":${said},`);
  expect(textOf(withLogTime(frameOf([line(ahead)], ahead, 'install')))).toContain(`"installed_at":${streamTime},`);
});
