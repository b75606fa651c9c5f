/** Tracks the lanes of the journals of a machine: which frames were published, and which the sink has committed. */
import type { FrameHeader } from '#common/log/frame.ts';
import { logAgeMaxMs } from '#common/log/log-stream.ts';
import { type Announcement, FrameSet, laneKey, laneKeyOf } from '#common/log/marks.ts';
import { AckSamples } from './ack-samples.ts';

/**
 * An uncommitted frame counts as skipped only this long after the sink has passed its time, because acknowledgements and
 * announcements travel. If one takes longer, the frame is only repeated: the marks drop duplicates.
 */
const skippedMs = 60_000;
const nothing = new FrameSet();

interface LaneState {
  readonly producerId: string;
  readonly partition: number;
  committed: FrameSet;
  readonly published: AckSamples;
}

/** A lane with frames that are published again. */
interface SkippedLane {
  readonly key: string;
  readonly producerId: string;
  readonly mark: number;
}

export class LaneProgress {
  readonly #lanes = new Map<string, LaneState>();

  /** What the sink has committed of a lane. */
  marksOf(key: string): FrameSet {
    return this.#lanes.get(key)?.committed ?? nothing;
  }

  /** @param writtenAt by the clock of `committedTo`, which must not jump. */
  saw(header: FrameHeader, key: string, writtenAt: number): void {
    this.#lane(key, header.producer_id, header.partition).published.saw(header.frame_no, writtenAt);
  }

  /** @param now by a clock that cannot jump. */
  acknowledged(header: FrameHeader, now: number): void {
    const { producer_id, partition, frame_no } = header;
    const { published, committed } = this.#lane(laneKeyOf(header), producer_id, partition);
    published.acknowledged(frame_no, now, committed);
  }

  /** Applies the sink's report to the producers that are known here. */
  announced(announcement: Announcement, isKnown: (producerId: string) => boolean): void {
    for (const marks of announcement.lanes) {
      if (!isKnown(marks.producer_id)) continue;
      const lane = this.#lane(laneKey(marks.producer_id, marks), marks.producer_id, marks.partition);
      // Marks go back if Postgres does. What was committed once stays committed; newer commits are added.
      lane.committed = lane.committed.union(new FrameSet(marks.mark, marks.ahead));
      lane.published.forget(marks.mark);
    }
  }

  /**
   * Lanes with frames that the sink skipped or that expired from the log, including lanes of partitions without an
   * owner. From now on, those frames count as not acknowledged.
   * @param now by the clock of the acknowledgements, which cannot jump: the wall clocks of machines may be years apart.
   */
  skipped({ partition, committed_ago }: Announcement, now: number): SkippedLane[] {
    const found: SkippedLane[] = [];
    for (const [key, lane] of this.#lanes) {
      const isRead = lane.partition === partition && committed_ago !== undefined;
      const before = Math.max(isRead ? now - committed_ago - skippedMs : Number.NEGATIVE_INFINITY, now - logAgeMaxMs);
      if (!lane.published.isPassedOver(lane.committed, before)) continue;
      lane.published.publishAgain();
      found.push({ key, producerId: lane.producerId, mark: lane.committed.mark });
    }
    return found;
  }

  /** Time of writing of the oldest uncommitted frame, at most `to`. */
  committedTo(to: number): number {
    let until = to;
    for (const { published, committed } of this.#lanes.values()) {
      until = Math.min(until, published.committedTo(committed.mark) ?? until);
    }
    return until;
  }

  forget(producerId: string): void {
    for (const [key, lane] of this.#lanes) if (lane.producerId === producerId) this.#lanes.delete(key);
  }

  #lane(key: string, producerId: string, partition: number): LaneState {
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = { producerId, partition, committed: nothing, published: new AckSamples() };
      this.#lanes.set(key, lane);
    }
    return lane;
  }
}
