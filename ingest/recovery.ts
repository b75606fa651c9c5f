/** What a new owner of a partition does with the batches that the last one left between BEFORE and AFTER. */
import { type FrameHeader, messageIdOf } from '#common/log/frame.ts';
import type { Nats } from '#common/nats.ts';
import type { Time } from '#common/time.ts';
import { changesOf, type LogFrame } from './batch.ts';
import type { BatchEntry, FrameRun } from './checkpoints.ts';
import { LogReader } from './log-reader.ts';
import type { Sink } from './sink.ts';

export interface RecoveryOptions {
  readonly entries: readonly BatchEntry[];
  readonly sink: Sink;
  readonly nats: Nats;
  readonly time: Time;
  readonly partition: number;
  readonly position: () => number;
  readonly log: (line: string) => void;
  /** How long to look for the frames in the log. */
  readonly searchMs?: number;
  /** How long an insert of the last owner may still be running in ClickHouse. */
  readonly quietMs?: number;
  /** Ends it at the next wait: what is not settled by then is the next owner's. */
  readonly signal?: AbortSignal;
}

const defaultSearchMs = 30_000;
const defaultQuietMs = 15_000;

export async function recoverBatches(options: RecoveryOptions): Promise<void> {
  for (const entry of options.entries) {
    if (isEnded(options)) return;
    const isStored = await recover(entry, options);
    if (isStored === undefined) return;
    options.log(
      `batch ${entry.batch_id} of an earlier owner is ${isStored ? 'stored' : 'withdrawn, its frames come again'}`,
    );
    if (isStored) await options.sink.finish(entry, headersOf(entry, options.partition));
  }
  await options.sink.endRepairs();
}

function isEnded(options: RecoveryOptions): boolean {
  return options.signal?.aborted ?? false;
}

/** @returns `undefined` when it was ended before anything was found out. */
async function recover(entry: BatchEntry, options: RecoveryOptions): Promise<boolean | undefined> {
  const { sink } = options;
  if ((await sink.bootId()) === entry.boot_id) {
    const frames = await findFrames(entry, options);
    if (isEnded(options)) return undefined;
    if (frames !== undefined) {
      const outcome = await sink.insertAgain(entry, await sink.form(frames, entry.batch_id, changesOf(entry.parts)));
      if (outcome === 'stored') return true;
      if (outcome === 'doubted') return (await sink.settle(entry)) === 'stored';
    }
    options.log(`batch ${entry.batch_id} can't be formed again: it is looked for once ClickHouse must be done with it`);
    await pause(options.time, options.quietMs ?? defaultQuietMs, options.signal);
    if (isEnded(options)) return undefined;
  }
  return (await sink.settle(entry)) === 'stored';
}

/** Reads the frames of a batch from the log once more; `undefined` if they did not all come. */
function findFrames(entry: BatchEntry, options: RecoveryOptions): Promise<LogFrame[] | undefined> {
  const order = headersOf(entry, options.partition).map(({ header }) => messageIdOf(header));
  const wanted = new Set(order);
  const found = new Map<string, LogFrame>();
  return new Promise((done) => {
    const finish = () => {
      reader.stop();
      options.time.clear(timer);
      options.signal?.removeEventListener('abort', finish);
      const frames = order.flatMap((id) => found.get(id) ?? []);
      done(frames.length === order.length ? frames : undefined);
    };
    const reader = new LogReader({
      nats: options.nats,
      time: options.time,
      partition: options.partition,
      position: options.position,
      onFrame: (frame) => {
        const id = messageIdOf(frame.header);
        if (wanted.has(id)) found.set(id, frame);
        if (found.size === wanted.size) finish();
        return true;
      },
      onCaughtUp: () => undefined,
      log: options.log,
    });
    const timer = options.time.after(options.searchMs ?? defaultSearchMs, finish);
    options.signal?.addEventListener('abort', finish, { once: true });
    reader.start();
  });
}

/** Ends early when the signal does. */
function pause(time: Time, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((done) => {
    const finish = () => {
      time.clear(timer);
      signal?.removeEventListener('abort', finish);
      done();
    };
    const timer = time.after(ms, finish);
    signal?.addEventListener('abort', finish, { once: true });
  });
}

/** As much of the headers of a batch's frames as its entry tells. */
function headersOf(entry: BatchEntry, partition: number): { header: FrameHeader }[] {
  return entry.frames.flatMap((run: FrameRun) =>
    Array.from({ length: run.to - run.from + 1 }, (_, index) => ({
      header: {
        producer_id: run.producer_id,
        kind: run.kind,
        partition,
        frame_no: run.from + index,
        records: 0,
        written_at: 0,
        payloadBytes: 0,
      },
    })),
  );
}
