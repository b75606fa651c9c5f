/**
 * When the uncommitted frames of a lane were written and acknowledged. The publisher keeps samples instead of every
 * frame: dense while there are few frames, coarser when there are many.
 */
import type { FrameSet } from '#common/log/marks.ts';

const samplesMax = 4_096;
const sampleMs = 100;

interface Sample {
  /** The last frame that it represents. */
  to: number;
  /** Earliest time of writing among them. */
  readonly writtenAt: number;
  /** Latest time of acknowledgement among them; `undefined` while one is not acknowledged. */
  acknowledgedAt: number | undefined;
}

export class AckSamples {
  #samples: Sample[] = [];

  saw(frameNo: number, writtenAt: number): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && frameNo <= last.to) return;
    if (last !== undefined && (writtenAt - last.writtenAt < sampleMs || this.#samples.length >= samplesMax)) {
      last.to = frameNo;
      last.acknowledgedAt = undefined;
    } else {
      this.#samples.push({ to: frameNo, writtenAt, acknowledgedAt: undefined });
    }
  }

  /** @param marks what the sink has committed: those frames are not sent again, so they are not acknowledged either. */
  acknowledged(frameNo: number, at: number, marks: FrameSet): void {
    const sample = this.#samples.find((one) => one.to >= frameNo);
    if (sample === undefined) return;
    if (sample.to === frameNo || marks.hasAll(frameNo + 1, sample.to)) sample.acknowledgedAt = at;
  }

  /** The sink has committed all frames up to this one. */
  forget(mark: number): void {
    let known = 0;
    while ((this.#samples[known]?.to ?? Number.POSITIVE_INFINITY) <= mark) known++;
    if (known > 0) this.#samples.splice(0, known);
  }

  /** An upper bound of the time of writing of the oldest uncommitted frame; `undefined` if all are committed. */
  committedTo(mark: number): number | undefined {
    return this.#samples.find((sample) => sample.to > mark)?.writtenAt;
  }

  /** Whether frames acknowledged before that time are still not committed. */
  isPassedOver(marks: FrameSet, before: number): boolean {
    const oldest = this.#samples.find((sample) => sample.to > marks.mark);
    return oldest?.acknowledgedAt !== undefined && oldest.acknowledgedAt < before;
  }

  /** All frames are sent again, so none counts as acknowledged. */
  publishAgain(): void {
    for (const sample of this.#samples) sample.acknowledgedAt = undefined;
  }
}
