/**
 * Keeps the log usable. A lost log is recreated by the first process that needs it; until ingest stamps it with this
 * installation's id, publishers ignore all marks.
 *
 * Also keeps free space in the log. Committed messages are needed only for replay, so they stay as long as they fit.
 * Above a share of the log's size, the oldest are purged, in small steps, because a purge delays publishing.
 *
 * Invariant: nothing above a partition's committed sequence is purged, and nothing of a partition that is to be
 * replayed. Sequences go back if the stream is recreated or loses its tail, so a sequence is used only if the stream is
 * still the one from which it was read and has reached it.
 */
import { frameBytesMax } from '#common/log/frame.ts';
import { type LogFill, logFill, purgeLog } from '#common/log/log-stream.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import type { Time, Timer } from '#common/time.ts';
import type { Checkpoints } from './checkpoints.ts';

/** One of the partitions that this process reads. */
export interface ReadPartition {
  readonly partition: number;
  /** `LogReader.committedSequence` */
  readonly committedSequence: number | undefined;
}

export interface LogRoomOptions {
  readonly nats: NatsClient;
  readonly time: Time;
  readonly partitions: () => readonly ReadPartition[];
  readonly checkpoints: Pick<Checkpoints, 'revision'>;
  /** Stamps the log with this installation's id. */
  readonly stampLog: () => Promise<unknown>;
  readonly log: (line: string) => void;
}

/** At 4 MB/s, a 64 MiB log fills from `purgeAbove` to its maximum in four seconds. */
const pollMs = 250;
const purgeAbove = 0.75;
const purgeTo = 0.7;
const stepBytesMax = 67_108_864;
const strideMax = 1_024;
/** A reader notices within this time that its stream was recreated. */
const distrustMs = 10_000;

export class LogRoom {
  readonly counters = { purges: 0, purged_messages: 0 };
  readonly #options: LogRoomOptions;
  #timer: Timer | undefined;
  #isBusy = false;
  #fill: LogFill | undefined;
  #trustedFrom = 0;
  /** The sequence up to which each partition was purged. */
  readonly #purged = new Map<number, number>();
  /**
   * By partition: the factor by which its steps are enlarged. It doubles while purges free too little, because
   * sequences are not spread evenly over the remaining messages. Not for a partition that waits for commits: once they
   * arrive, it would lose all of them at once.
   */
  readonly #strides = new Map<number, number>();
  #isFull = false;

  constructor(options: LogRoomOptions) {
    this.#options = options;
  }

  /** Fill level at the last poll; `undefined` before the first. */
  get fill(): LogFill | undefined {
    return this.#fill;
  }

  /** Why the log does not accept more records; empty if it does. */
  get refusal(): string {
    const { bytes, bytesMax } = this.#fill ?? { bytes: 0, bytesMax: 0 };
    return this.#isFull ? `the log is full: ${bytes} of ${bytesMax} bytes` : '';
  }

  start(): void {
    const { time } = this.#options;
    this.#timer = time.every(pollMs, () => {
      if (!this.#isBusy) void this.#poll();
    });
  }

  stop(): void {
    this.#options.time.clear(this.#timer);
  }

  async #poll(): Promise<void> {
    this.#isBusy = true;
    try {
      const fill = await logFill(this.#options.nats);
      if (fill?.installationId === '') await this.#options.stampLog();
      if (fill !== undefined) await this.#look(fill);
    } finally {
      this.#isBusy = false;
    }
  }

  async #look(fill: LogFill): Promise<void> {
    const now = this.#options.time.elapsed();
    const isOther = this.#fill?.created !== fill.created || fill.lastSequence < this.#fill.lastSequence;
    if (isOther) {
      if (this.#fill !== undefined) this.#trustedFrom = now + distrustMs;
      this.#purged.clear();
      this.#strides.clear();
    }
    this.#fill = fill;
    this.#tellWhenFull(fill);
    if (fill.bytes >= fill.bytesMax * purgeAbove && now >= this.#trustedFrom) await this.#purge(fill);
  }

  async #purge(fill: LogFill): Promise<void> {
    const wantedBytes = Math.min(fill.bytes - fill.bytesMax * purgeTo, stepBytesMax);
    const share = wantedBytes / fill.bytes;
    let purged: number | undefined;
    const stepped: number[] = [];
    for (const { partition, committedSequence } of this.#options.partitions()) {
      if (committedSequence === undefined || committedSequence > fill.lastSequence) continue;
      const from = Math.max(fill.firstSequence - 1, this.#purged.get(partition) ?? 0);
      const stride = this.#strides.get(partition) ?? 1;
      const step = Math.ceil((fill.lastSequence - from) * share * stride);
      const upTo = Math.min(committedSequence, from + step);
      if (upTo < from + step) this.#strides.delete(partition);
      if (upTo <= from || (await this.#isReplayWanted(partition))) continue;
      const count = await purgeLog(this.#options.nats, partition, upTo);
      if (count === undefined) return;
      this.#purged.set(partition, upTo);
      this.counters.purges++;
      this.counters.purged_messages += count;
      purged = (purged ?? 0) + count;
      if (upTo === from + step) stepped.push(partition);
    }
    if (purged === undefined) return;
    const isTooLittle = purged < (fill.messages * share) / 2;
    for (const partition of stepped) {
      const stride = this.#strides.get(partition) ?? 1;
      if (isTooLittle) this.#strides.set(partition, Math.min(strideMax, stride * 2));
      else this.#strides.delete(partition);
    }
  }

  /** Also true while Postgres does not answer, because purged messages cannot be replayed. */
  async #isReplayWanted(partition: number): Promise<boolean> {
    try {
      const revision = await this.#options.checkpoints.revision(partition);
      return revision !== undefined && revision.replay_from !== null;
    } catch (error) {
      if (!(error instanceof PostgresUnavailable)) throw error;
      return true;
    }
  }

  /** Logs once when the log starts to refuse records, and once when it accepts them again. */
  #tellWhenFull({ bytes, bytesMax }: LogFill): void {
    const isFull = bytes + frameBytesMax > bytesMax;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#options.log(
      isFull
        ? `the log is full (${bytes} of ${bytesMax} bytes) and accepts no records: they wait in the journals until its contents are stored`
        : 'the log accepts records again',
    );
  }
}
