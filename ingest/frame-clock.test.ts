import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#common/durations.ts';
import { newId } from '#common/ids.ts';
import { encodeFrame, payloadOf, readFrame } from '#common/log/frame.ts';
import type { RecordKind } from '#common/log/record.ts';
import { decodeSending, encodeSending } from '#common/log/sending.ts';
import type { LogFrame } from './formed-batch.ts';
import { isOfNow, rightTime, timeWithin, withTime } from './frame-clock.ts';
import { decodeClicks } from './record-decoder.ts';
import { testClick } from './testing/pipeline-harness.ts';

const now = Date.UTC(2026, 10, 22);
const year = 365 * DAY_MS;
const boot2023 = Date.UTC(2023, 2, 1);

/** What happens to a frame, as ages before `now`, which is the time of a right clock; negative: ahead. */
interface Course {
  readonly written: number;
  /** The publisher's clock when it sent the frame; `null`: an earlier version, which does not tell. */
  readonly sent?: number | null;
  readonly streamed?: number;
  readonly ageMax?: number;
  readonly store?: number;
  readonly retentionDays?: number;
}

/** The age of the frame as ingest stores it. */
function storedAge({ written, sent = 0, streamed = 0, ageMax = Infinity, store = 0, retentionDays = 730 }: Course) {
  const writtenAt = now - written;
  const arrival = {
    streamTime: now - streamed,
    sending: sent === null ? undefined : { sentAt: now - sent, ageMax },
  };
  const oldest = now - store - retentionDays * DAY_MS;
  if (isOfNow(writtenAt, arrival.streamTime, oldest)) return written;
  return now - rightTime(writtenAt, arrival, oldest, now - store);
}

test.each<[clock: string, offBy: number]>([
  ['1970', now - DAY_MS],
  ['2019', now - Date.UTC(2019, 5, 1)],
  ['2020-01-01', now - Date.UTC(2020, 0, 1)],
  ['2023', now - boot2023],
  ['100 days ago', 100 * DAY_MS],
  ['a month ago', 30 * DAY_MS],
  ['two hours ahead', -2 * HOUR_MS],
  ['800 days ahead', -800 * DAY_MS],
])('a record of a machine with a clock at %s is stored with its right time', (_, offBy) => {
  for (const retentionDays of [7, 90, 730]) {
    const stored = (age: number, more: Partial<Course> = {}) =>
      storedAge({ written: offBy + age, sent: offBy, retentionDays, ...more });
    expect(stored(0)).toBe(0);
    // The log was unreachable for two days.
    expect(stored(2 * DAY_MS)).toBe(2 * DAY_MS);
    // An earlier version of the publisher sent it: within the retention, its edge is believed.
    const isKept = offBy > 0 && offBy < retentionDays * DAY_MS && now - offBy >= Date.UTC(2020, 0, 1);
    expect(stored(0, { sent: null })).toBe(isKept ? offBy : 0);
  }
});

test('up to an hour off, a clock counts as right', () => {
  for (const off of [50 * MINUTE_MS, -50 * MINUTE_MS]) expect(storedAge({ written: off, sent: off })).toBe(off);
});

test('the records of a machine that was off for weeks keep their time, unless ClickHouse would drop them at once', () => {
  const age = 21 * DAY_MS;
  expect(storedAge({ written: age })).toBe(age);
  expect(storedAge({ written: age, retentionDays: 30 })).toBe(age);
  expect(storedAge({ written: age, retentionDays: 20 })).toBe(0);
  expect(storedAge({ written: 3 * year })).toBe(0);
});

test('a clock that jumps between writing and sending gives a record at most the age of its file', () => {
  // Booted in the past, then set: the file appeared two minutes ago.
  for (const written of [now - boot2023, 30 * DAY_MS])
    expect(storedAge({ written, ageMax: 2 * MINUTE_MS })).toBe(2 * MINUTE_MS);
  // The file may be older than the publisher: the time is kept if ClickHouse keeps it.
  expect(storedAge({ written: 30 * DAY_MS })).toBe(30 * DAY_MS);
  expect(storedAge({ written: now - boot2023 })).toBe(0);
  // Back and forth.
  expect(storedAge({ written: 30 * DAY_MS, sent: now - boot2023, ageMax: MINUTE_MS })).toBe(0);
  expect(storedAge({ written: -800 * DAY_MS })).toBe(0);
  expect(storedAge({ written: -800 * DAY_MS, sent: now - boot2023 })).toBe(0);
});

test('a publisher with another clock than the edge changes no time that the log finds possible', () => {
  expect(storedAge({ written: 3 * DAY_MS, sent: now - boot2023 })).toBe(3 * DAY_MS);
  expect(storedAge({ written: 0, sent: -800 * DAY_MS })).toBe(0);
});

test('a log whose clock is wrong is outvoted by the edge and ClickHouse', () => {
  const wrong = [now - boot2023, 30 * DAY_MS, -800 * DAY_MS];
  for (const streamed of [...wrong, 2 * HOUR_MS, 2 * DAY_MS]) {
    expect(storedAge({ written: 0, streamed })).toBe(0);
    expect(storedAge({ written: 3 * DAY_MS, streamed })).toBe(3 * DAY_MS);
  }
  // Ingest reads the message later.
  for (const streamed of wrong) {
    for (const sent of [5 * HOUR_MS, 2 * DAY_MS]) {
      expect(storedAge({ written: sent, sent, streamed })).toBe(sent);
      expect(storedAge({ written: 4 * DAY_MS, sent, streamed })).toBe(4 * DAY_MS);
    }
  }
});

test('a message that waited in the log keeps the time of the log', () => {
  for (const streamed of [2 * HOUR_MS, 2 * DAY_MS]) {
    expect(storedAge({ written: streamed, sent: streamed, streamed })).toBe(streamed);
    expect(storedAge({ written: streamed - 800 * DAY_MS, sent: streamed - 800 * DAY_MS, streamed })).toBe(streamed);
    expect(storedAge({ written: now - boot2023, sent: now - boot2023, streamed })).toBe(streamed);
  }
});

test('a ClickHouse whose clock is wrong is outvoted, but gets no row that it would drop', () => {
  expect(storedAge({ written: 5 * year, sent: 5 * year, store: now - boot2023 })).toBe(0);
  expect(storedAge({ written: 2 * DAY_MS, store: -400 * DAY_MS })).toBe(2 * DAY_MS);
  expect(storedAge({ written: 0, store: -800 * DAY_MS })).toBe(-800 * DAY_MS);
});

test('whatever the clocks show, a record gets a time that ClickHouse keeps, and the same one each time', () => {
  const clock = fc.oneof(fc.double(), fc.integer({ min: -4e12, max: 4e12 }), fc.integer({ min: -9e6, max: 9e6 }));
  fc.assert(
    fc.property(
      clock,
      fc.option(fc.maxSafeInteger()),
      fc.integer(),
      fc.integer({ min: 1, max: 20_000 }),
      (...given) => {
        const [written, sent, streamed, days] = given;
        const course = { written, sent, streamed, retentionDays: days };
        const age = storedAge(course);
        expect(age).toBeLessThanOrEqual(days * DAY_MS);
        expect(storedAge(course)).toBe(age);
      },
    ),
  );
});

test('what a publisher says about sending is read as it was written, and nothing else is', () => {
  for (const sending of [
    { sentAt: now, ageMax: Infinity },
    { sentAt: -1, ageMax: 0 },
  ])
    expect(decodeSending(encodeSending(sending))).toEqual(sending);
  for (const text of ['', 'x', '1 2 3', '1e5', '1 -2', '9'.repeat(17)]) expect(decodeSending(text)).toBeUndefined();
});

function frameOf(lines: readonly string[], written_at: number, kind: RecordKind = 'click'): LogFrame {
  const bytes = Buffer.alloc(100_000);
  const header = { kind, partition: 0, producer_id: 'p'.repeat(26), frame_no: 7, records: lines.length, written_at };
  const length = encodeFrame(bytes, 0, header, `${lines.join('\n')}\n`);
  const read = readFrame(bytes, 0);
  if (read.state !== 'frame') throw new Error(read.state);
  return { header: read.header, bytes: bytes.subarray(0, length), streamTime: now };
}

const textOf = ({ bytes, header }: LogFrame) => payloadOf(bytes, header).toString().trimEnd();

test('the clicks of a corrected frame keep the intervals between them', () => {
  for (const edgeNow of [DAY_MS, boot2023, now + 5 * year]) {
    const frame = frameOf([testClick(edgeNow - 3), testClick(edgeNow)], edgeNow);
    const moved = withTime(frame, now);
    expect(decodeClicks(`${textOf(moved)}\n`, 2)?.map((click) => click.time)).toEqual([now - 3, now]);
    expect(readFrame(moved.bytes, 0)).toMatchObject({ state: 'frame', header: { ...moved.header, frame_no: 7 } });
    expect(withTime(frame, now).bytes.equals(moved.bytes)).toBe(true);
  }
});

test('fields that an app sent stay unchanged, whatever their names', () => {
  const sent = '{"name":"a","time":12345678901234567890,"received_at":1,"properties":{"time":5}}';
  const line = `{"v":1,"app_id":"${newId('app', 1)}","received_at":1000,"user_agent":"\\",\\"time\\":1","event_id":"e","time":990,"sent":${sent}}`;
  expect(textOf(withTime(frameOf([line], 1_000, 'event'), now))).toBe(
    line.replace('"received_at":1000', `"received_at":${now}`).replace('"time":990', `"time":${now - 10}`),
  );
  const batch = `{"v":1,"received_at":1000,"batch":{"id_base":"x","body":{"events":[{"name":"a","time":7}]}}}`;
  const movedBatch = textOf(withTime(frameOf([batch], 1_000, 'event'), now));
  expect(movedBatch).toBe(batch.replace('"received_at":1000', `"received_at":${now}`));
});

test.each([
  ['800 days ahead', now + 800 * DAY_MS],
  ['at 2023', boot2023],
])('a time that an app told an edge %s stays if it is possible, and else moves with the others', (_, edgeNow) => {
  const event = (time: number) => `{"v":1,"received_at":${edgeNow},"event_id":"e","time":${time},"sent":{}}`;
  const eventTimes = (time: number) => textOf(withTime(frameOf([event(time)], edgeNow, 'event'), now));
  const moved = (time: number) => event(time).replace(`"received_at":${edgeNow}`, `"received_at":${now}`);
  expect(eventTimes(now - 5 * DAY_MS)).toBe(moved(now - 5 * DAY_MS));
  expect(eventTimes(edgeNow - DAY_MS)).toBe(
    moved(edgeNow - DAY_MS).replace(`:${edgeNow - DAY_MS},`, `:${now - DAY_MS},`),
  );
  const install = (at: number) => `{"v":1,"time":${edgeNow},"installed_at":${at},"properties":{"installed_at":1}}`;
  const installedAt = (at: number) => textOf(withTime(frameOf([install(at)], edgeNow, 'install'), now));
  expect(installedAt(now - year)).toContain(`"time":${now},"installed_at":${now - year},`);
  expect(installedAt(edgeNow)).toContain(`"time":${now},"installed_at":${now},`);
});

test('a record with another time than its frame keeps it only if that is possible', () => {
  const oldest = now - 90 * DAY_MS;
  expect([-DAY_MS, HOUR_MS].map((ms) => timeWithin(now + ms, now, oldest) - now)).toEqual([-DAY_MS, HOUR_MS]);
  expect([-91 * DAY_MS, HOUR_MS + 1].map((ms) => timeWithin(now + ms, now, oldest) - now)).toEqual([0, 0]);
});
