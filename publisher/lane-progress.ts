/**
 * How far the lanes of a machine's journals have progressed: what was published of each, and what the sink has
 * committed.
 */

import type { FrameHeader } from '#common/log/frame.ts';
import { logAgeMaxMs } from '#common/log/log-stream.ts';
import { type Announcement, FrameSet, laneKey, laneKeyOf } from '#common/log/marks.ts';
import { AckSamples } from './ack-samples.ts';

/**
 * How far behind the sink's time an uncommitted frame counts as skipped, because clocks of machines differ. A clock
 * that is further ahead only delays the repetition: nothing is lost, and the marks drop duplicates.
 */
const skippedMs = 60_000;
const nothing = new FrameSet();

interface PassedOver {
  readonly key: string;
  readonly producerId: string;
  readonly mark: number;
}

export class LaneProgress {
  readonly #committed = new Map<string, FrameSet>();
  readonly #published = new Map<string, AckSamples>();

  /** What the sink has committed of a lane. */
  marksOf(key: string): FrameSet {
    return this.#committed.get(key) ?? nothing;
  }

  saw({ frame_no, written_at }: FrameHeader, key: string): void {
    this.#logOf(key).saw(frame_no, written_at);
  }

  acknowledged(header: FrameHeader, now: number): void {
    this.#logOf(laneKeyOf(header)).acknowledged(header.frame_no, now);
  }

  /** Applies the sink's report to the producers that are known here. */
  announced(announcement: Announcement, isKnown: (producerId: string) => boolean): void {
    for (const lane of announcement.lanes) {
      if (!isKnown(lane.producer_id)) continue;
      const key = laneKey(lane.producer_id, lane);
      // Marks can go back with Postgres. What was committed once stays committed; newer commits are added.
      this.#committed.set(key, this.marksOf(key).union(new FrameSet(lane.mark, lane.ahead)));
      this.#published.get(key)?.forget(lane.mark);
    }
  }

  /**
   * Lanes with frames that the sink skipped or that expired from the log, including lanes of partitions without an owner; from now on
   * they count as not acknowledged.
   * @param now by this machine's clock: if that is behind the sink's, what the sink has committed seems to be later.
   */
  skipped({ partition, committed_to }: Announcement, now: number): PassedOver[] {
    const found: PassedOver[] = [];
    for (const [key, log] of this.#published) {
      const [producerId = ''] = key.split(':');
      const isRead = key.endsWith(`:${partition}`);
      const before = Math.max(isRead ? Math.min(committed_to, now) - skippedMs : 0, now - logAgeMaxMs);
      if (!log.isPassedOver(this.marksOf(key), before)) continue;
      log.publishAgain();
      found.push({ key, producerId, mark: this.marksOf(key).mark });
    }
    return found;
  }

  /** Time of writing of the oldest uncommitted frame, at most `to`. Epoch ms. */
  committedTo(to: number): number {
    let until = to;
    for (const [key, log] of this.#published) until = Math.min(until, log.committedTo(this.marksOf(key).mark) ?? until);
    return until;
  }

  forget(producerId: string): void {
    for (const key of [...this.#published.keys(), ...this.#committed.keys()]) {
      if (!key.startsWith(producerId)) continue;
      this.#published.delete(key);
      this.#committed.delete(key);
    }
  }

  #logOf(key: string): AckSamples {
    let log = this.#published.get(key);
    if (log === undefined) {
      log = new AckSamples();
      this.#published.set(key, log);
    }
    return log;
  }
}
