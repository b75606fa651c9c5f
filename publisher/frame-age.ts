/** How old frames are, whatever the clock of the machine showed when they were written, and shows now. */
import { encodeSending, sendingHeader } from '#common/log/sending.ts';
import type { Time } from '#common/time.ts';
import type { JournalFrame, ProducerReader } from './producer-reader.ts';
import type { FrameRunMessage } from './publish-window.ts';

/** The header of a message that is sent now. */
export function sendingOf({ reader, position }: FrameRunMessage, time: Time): [name: string, value: string] {
  const ageMax = time.elapsed() - reader.absentAt(position.segment);
  return [sendingHeader, encodeSending({ sentAt: Math.floor(time.now()), ageMax })];
}

/** When a frame was written, by `elapsed()`. */
export function writtenAt({ header, position }: JournalFrame, reader: ProducerReader, time: Time): number {
  const elapsed = time.elapsed();
  const written = elapsed - (time.now() - header.written_at);
  return Math.min(elapsed, Math.max(written, reader.absentAt(position.segment)));
}
