/**
 * Corrects frames of an edge whose clock is wrong: before 2020, where a machine without a battery starts, or further
 * ahead of the log than machines normally differ. Such records are kept, with the log's time instead of the edge's; all
 * times move by the same amount.
 */
import { EVENT_AHEAD_MAX_MS, isRecordTime } from '#common/event-time.ts';
import { encodeHeader, frameHeaderBytes, payloadOf } from '#common/log/frame.ts';
import type { LogFrame } from './formed-batch.ts';

/**
 * Data sent by apps follows one of these members. No text before it can imitate such a member, because quotes are
 * escaped.
 */
const sentPart = /,"(?:sent|batch|properties|detail)":/;
const edgeTimes = /(,"(?:time|received_at)":)(-?[\d.e+]+)/g;
/** Sent by the app; the edge's clock is only the default. */
const installedAt = /(,"installed_at":)(-?[\d.e+]+)/;

/** Whether the edge's clock may have been right when it wrote this. */
export function isClockRight(writtenAt: number, streamTime: number): boolean {
  return isRecordTime(Math.floor(writtenAt)) && writtenAt <= streamTime + EVENT_AHEAD_MAX_MS;
}

/**
 * The frame as an edge with the log's clock would have written it. Deterministic: the same frame and time give the same
 * bytes.
 */
export function withLogTime({ header, bytes, streamTime }: LogFrame): LogFrame {
  const { written_at } = header;
  const move = (time: string) =>
    String(Math.floor(streamTime + (Number(time) - (Number.isFinite(written_at) ? written_at : Number(time)))));
  const moveIfWrong = (time: string) => (isClockRight(Number(time), streamTime) ? time : move(time));
  const lines = payloadOf(bytes, header)
    .toString()
    .split('\n')
    .map((line) => {
      const end = sentPart.exec(line)?.index ?? line.length;
      const own = line
        .slice(0, end)
        .replace(edgeTimes, (_, name: string, time: string) => name + move(time))
        .replace(installedAt, (_, name: string, time: string) => name + moveIfWrong(time));
      return own + line.slice(end);
    });
  const payload = Buffer.from(lines.join('\n'));
  const moved = { ...header, written_at: streamTime, payloadBytes: payload.length };
  const frame = Buffer.alloc(frameHeaderBytes + payload.length);
  payload.copy(frame, frameHeaderBytes);
  encodeHeader(frame, 0, moved, payload.length);
  return { header: moved, bytes: frame, streamTime };
}
