/**
 * Decides when a frame was written, and corrects frames of an edge whose clock is wrong. An edge's time counts only as
 * far as the log's time and the publisher's time of sending allow it:
 *
 *   within an hour of the log                     right
 *   the publisher's clock tells how old it is     the log's time minus that age; right if this differs by an hour at most
 *   it does not (see `written`)                   right, unless it is ahead of the log
 *
 * Whatever is ahead of the log, or so old that ClickHouse would drop it at once, gets the log's time. No record is
 * refused for its edge's clock; all times of a frame move by the same amount.
 */
import { MINUTE_MS } from '#common/durations.ts';
import { EVENT_AGE_MAX_MS, EVENT_AHEAD_MAX_MS, recordTimeMin } from '#common/event-time.ts';
import { encodeHeader, frameHeaderBytes, payloadOf } from '#common/log/frame.ts';
import { logAgeMaxMs } from '#common/log/log-stream.ts';
import type { Sending } from '#common/log/sending.ts';
import type { LogFrame } from './formed-batch.ts';

/** What ClickHouse says about time; see `Retention`. */
export interface StoreTimes {
  /** Its clock, epoch ms; `undefined` before it was first read. */
  readonly now: number | undefined;
  /** Rows of a table (or kind of record) with an earlier time would be dropped at once. */
  oldestOf(table: string): number;
}

/** Before ClickHouse was asked. */
export const unknownTimes: StoreTimes = { now: undefined, oldestOf: () => 0 };

/** Clocks that differ by less count as equal. */
const toleranceMs = EVENT_AHEAD_MAX_MS;
/** A record is written this soon after the edge read its clock for it. */
const writingMs = 10 * MINUTE_MS;

/** A message as the log delivers it. */
interface Arrival {
  /** Time at which the log stored it, by its own clock. Epoch ms. */
  readonly streamTime: number;
  /** Absent if an earlier version sent it. */
  readonly sending: Sending | undefined;
}

/**
 * The time at which a message arrived: that of the log, unless the clocks of sender and ClickHouse agree against it:
 * they are equal, or only the sender's time is one of a message that waited in the log, for at most `logAgeMaxMs`.
 */
function arrivedAt({ streamTime, sending }: Arrival, writtenAt: number, now: number | undefined): number {
  if (now === undefined) return streamTime;
  const sentAt = sending?.sentAt ?? writtenAt;
  if (Math.abs(now - sentAt) <= toleranceMs) return Math.abs(now - streamTime) <= toleranceMs ? streamTime : now;
  const isPossible = (time: number) => now - time >= -toleranceMs && now - time <= logAgeMaxMs + toleranceMs;
  return isPossible(streamTime) || !isPossible(sentAt) ? streamTime : sentAt;
}

/** Whether a frame was written just now by the clocks of edge and log, and ClickHouse keeps it: nearly every frame. */
export function isOfNow(writtenAt: number, streamTime: number, oldest: number): boolean {
  return Math.abs(streamTime - writtenAt) <= toleranceMs && writtenAt >= oldest;
}

/** @returns when a frame was written, epoch ms: `writtenAt` itself if the edge's clock may have been right. */
export function rightTime(writtenAt: number, arrival: Arrival, oldest: number, now: number | undefined): number {
  const arrived = arrivedAt(arrival, writtenAt, now);
  const time = written(writtenAt, arrived, arrival.sending);
  if (time >= Math.max(oldest, recordTimeMin)) return time;
  // Only if the clock of ClickHouse is far ahead of all others would it drop even this.
  return arrived >= oldest ? arrived : (now ?? arrived);
}

function written(writtenAt: number, arrived: number, sending: Sending | undefined): number {
  const earliest = sending === undefined ? Number.NEGATIVE_INFINITY : arrived - sending.ageMax - toleranceMs;
  const isPossible = writtenAt <= arrived + toleranceMs && writtenAt >= earliest;
  const age = sending === undefined ? Number.NaN : sending.sentAt - writtenAt;
  // Without an age, or with a negative one, the two times are not of one clock.
  if (sending === undefined || !(age >= -toleranceMs)) return isPossible ? writtenAt : arrived;
  const time = arrived - Math.min(Math.max(age, 0), sending.ageMax);
  return isPossible && Math.abs(time - writtenAt) <= toleranceMs ? writtenAt : time;
}

/**
 * Data sent by apps follows one of these members. No text before it can imitate such a member, because quotes are
 * escaped.
 */
const sentPart = /,"(?:sent|batch|properties|detail)":/;
const times = /(,"(time|received_at|installed_at)":)(-?[\d.e+]+)/g;

/**
 * The frame as an edge with a right clock would have written it, at a given time. Deterministic: the same frame and
 * time give the same bytes.
 */
export function withTime({ header, bytes, streamTime }: LogFrame, time: number): LogFrame {
  const { written_at, kind } = header;
  const moveBy = Number.isFinite(written_at) ? time - written_at : Number.NaN;
  const moved = (own: string) => String(Math.floor(Number.isNaN(moveBy) ? time : Number(own) + moveBy));
  // Sent by the app, or kept since an earlier request; the edge's clock is only the default.
  const earliest = kind === 'event' ? time - EVENT_AGE_MAX_MS : recordTimeMin;
  const movedIfOwn = (own: string) => {
    const isOwn = Math.abs(Number(own) - written_at) <= writingMs;
    const isPossible = Number(own) <= time + toleranceMs && Number(own) >= earliest;
    return isPossible && !isOwn ? own : moved(own);
  };
  const lines = payloadOf(bytes, header)
    .toString()
    .split('\n')
    .map((line) => {
      const end = sentPart.exec(line)?.index ?? line.length;
      const own = line.slice(0, end).replace(times, (_, member: string, name: string, text: string) => {
        const isEdges = name === 'received_at' || (name === 'time' && (kind === 'click' || kind === 'match'));
        return member + (isEdges ? moved(text) : movedIfOwn(text));
      });
      return own + line.slice(end);
    });
  const payload = Buffer.from(lines.join('\n'));
  const corrected = { ...header, written_at: time, payloadBytes: payload.length };
  const frame = Buffer.alloc(frameHeaderBytes + payload.length);
  payload.copy(frame, frameHeaderBytes);
  encodeHeader(frame, 0, corrected, payload.length);
  return { header: corrected, bytes: frame, streamTime, isCorrected: true };
}

/** The time of a record in a frame: an impossible one is replaced by that of the frame. */
export function timeWithin(time: number, writtenAt: number, oldest: number): number {
  return time > writtenAt + toleranceMs || time < oldest ? writtenAt : time;
}
