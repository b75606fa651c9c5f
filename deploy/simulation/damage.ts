/** Damaged places in journals: which records they may destroy, and whether these are counted as lost. */
import { type FrameHeader, frameHeaderBytes, readFrame } from '#common/log/frame.ts';
import { journalRoot } from './edge-program.ts';
import type { Machine } from './machine.ts';
import type { Scheduler } from './scheduler.ts';
import type { SimulatedPostgres } from './simulated-postgres.ts';
import { recordsOf } from './thin-former.ts';

interface Place {
  readonly header: FrameHeader;
  readonly at: number;
}

const bytesMax = 40;

export class Damage {
  count = 0;
  /** The frame of each record that may be destroyed. */
  readonly #frames = new Map<number, FrameHeader>();

  /** Destroys a part of a frame on a disk. */
  do({ disk }: Machine, scheduler: Scheduler): void {
    const { random } = scheduler;
    const paths = disk.filesIn(journalRoot).filter((path) => path.endsWith('.seg'));
    if (paths.length === 0) return;
    const path = random.pick(paths);
    const bytes = disk.contentOf(path);
    const frames: Place[] = [];
    for (let at = 0; ; ) {
      const read = readFrame(bytes, at);
      if (read.state !== 'frame') break;
      frames.push({ header: read.header, at });
      at += read.bytes;
    }
    if (frames.length === 0) return;
    const { header, at } = random.pick(frames);
    const { kind, partition } = header;
    // A number that is in no file shows only if a later one of its lane is, or if the header survives.
    const isHeader = frames.some(
      (one) => one.at > at && one.header.kind === kind && one.header.partition === partition,
    );
    const from = at + (isHeader && random.next() < 0.5 ? 0 : frameHeaderBytes);
    const to = Math.min(at + frameHeaderBytes + header.payloadBytes, from + random.between(1, bytesMax));
    for (const { n } of recordsOf({ header, bytes: bytes.subarray(at) })) this.#frames.set(n, header);
    for (let byte = from; byte < to; byte++) bytes[byte] = (bytes[byte] ?? 0) ^ 0x55;
    this.count++;
    scheduler.note(() => `bytes ${from} to ${to} of ${path} are damaged, of ${kind} frame ${header.frame_no}`);
  }

  /** Whether a record was destroyed, and Postgres knows. */
  isCounted(n: number, { lostFrames }: SimulatedPostgres): boolean {
    const frame = this.#frames.get(n);
    return lostFrames.some(
      ({ producer_id, kind, from, to }) =>
        producer_id === frame?.producer_id && kind === frame.kind && frame.frame_no >= from && frame.frame_no <= to,
    );
  }
}
