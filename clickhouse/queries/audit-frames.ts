/**
 * Finds missing clicks. The frames of a producer are numbered without gaps, and so are the records of a frame. A click
 * is a row of `clicks` or, if it could not become one, a dead letter. So a skipped number is a lost click.
 *
 * Frames are numbered per lane: producer, kind and partition of the log. This works only for clicks: repeats from an
 * SDK are dropped and leave no row, so a frame without rows may be complete. It finds neither the last records of a
 * frame nor frames after the last one of a lane.
 */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';
import { DAY_MS } from '#common/durations.ts';

export interface MissingClicks {
  readonly producer_id: string;
  /** The first missing frame, or the frame in which records are missing. */
  readonly frame_no: number;
  /** Beginning of the hour of the first row after the gap, epoch seconds. */
  readonly bucket_s: number;
  /** Missing frames; 0 if only records of one frame are missing. */
  readonly frames: number;
  /** Missing records, at least: each missing frame had one or more. */
  readonly records: number;
}

/** Frames that a journal has lost, as ingest has counted them: no store has them. */
export interface LostFrames {
  readonly log_partition: number;
  readonly kind: string;
  readonly producer_id: string;
  readonly frame_from: number;
  readonly frame_to: number;
  /** At least. */
  readonly records: number;
  /** Epoch ms. */
  readonly noted_at: number;
}

/** Maximum number of gaps that are checked again: if there are more, these are enough to raise an alarm. */
const gapsMax = 20;
/** How far back to look for the preceding frame: a gap after a longer pause of the producer is not detected. */
const lookBackMs = DAY_MS;
/** The clock error that is tolerated. */
const clockErrorMs = 60 * DAY_MS;

const seen = `SELECT log_partition, producer_id, frame_no, idx, time FROM clicks WHERE time >= fromUnixTimestamp64Milli({back:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})
  UNION ALL SELECT log_partition, producer_id, frame_no, idx, time FROM dead_letters
  WHERE kind = 'click' AND time >= fromUnixTimestamp64Milli({back:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})`;

interface GapRow {
  readonly log_partition: number;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly previous: number;
  readonly records: number;
  readonly bucket_s: number;
}

/**
 * Gaps whose end is in [from, to), epoch ms, without the frames that are known to be lost. @throws ClickHouseFailure
 */
export async function missingClicks(
  client: Pick<ClickHouse, 'query'>,
  { from, to, lost }: { readonly from: number; readonly to: number; readonly lost: readonly LostFrames[] },
  settings: Settings,
): Promise<MissingClicks[]> {
  const gaps = await client.query<GapRow>(
    `SELECT log_partition, producer_id, frame_no, previous, records, toUnixTimestamp(toStartOfHour(at, 'UTC')) AS bucket_s FROM (
  SELECT log_partition, producer_id, frame_no, max(time) AS at, toInt64(max(idx)) + 1 - toInt64(uniqExact(idx)) AS records,
    lagInFrame(frame_no, 1, toUInt64(frame_no - 1)) OVER (PARTITION BY log_partition, producer_id ORDER BY frame_no) AS previous
  FROM (${seen}) GROUP BY log_partition, producer_id, frame_no)
WHERE at >= fromUnixTimestamp64Milli({from:Int64}) AND (previous + 1 < frame_no OR records > 0)
ORDER BY log_partition, producer_id, frame_no LIMIT {gaps_max:UInt32}`,
    { back: from - lookBackMs, from, to, gaps_max: gapsMax },
    settings,
  );
  return gaps.length === 0 ? [] : await confirmedGaps(client, gaps, { from, to, lost }, settings);
}

interface FrameRow {
  readonly log_partition: number;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly missing: number;
}

/**
 * Confirms gaps with one query for all of them: after a clock change, a frame may be stored at another time, and is
 * then not missing.
 */
async function confirmedGaps(
  client: Pick<ClickHouse, 'query'>,
  gaps: readonly GapRow[],
  { from, to, lost }: { readonly from: number; readonly to: number; readonly lost: readonly LostFrames[] },
  settings: Settings,
): Promise<MissingClicks[]> {
  const around = `time >= fromUnixTimestamp64Milli({back:Int64}) AND time < fromUnixTimestamp64Milli({ahead:Int64})
    AND producer_id IN {producers:Array(String)}
    AND arrayExists((n, p, f, l) -> n = log_partition AND p = producer_id AND frame_no BETWEEN f AND l, {partitions:Array(UInt16)}, {of:Array(String)}, {first:Array(UInt64)}, {last:Array(UInt64)})`;
  const rows = await client.query<FrameRow>(
    `SELECT log_partition, producer_id, frame_no, toInt64(max(idx)) + 1 - toInt64(uniqExact(idx)) AS missing FROM (
  SELECT log_partition, producer_id, frame_no, idx FROM clicks WHERE ${around}
  UNION ALL SELECT log_partition, producer_id, frame_no, idx FROM dead_letters WHERE kind = 'click' AND ${around})
GROUP BY log_partition, producer_id, frame_no`,
    {
      back: from - clockErrorMs,
      ahead: to + clockErrorMs,
      producers: [...new Set(gaps.map((gap) => gap.producer_id))],
      partitions: gaps.map((gap) => gap.log_partition),
      of: gaps.map((gap) => gap.producer_id),
      first: gaps.map((gap) => gap.previous + 1),
      last: gaps.map((gap) => gap.frame_no),
    },
    settings,
  );
  return gaps.flatMap(({ log_partition, producer_id, frame_no, previous, bucket_s }) => {
    const its = rows.filter(
      (row) => row.log_partition === log_partition && row.producer_id === producer_id && row.frame_no > previous,
    );
    const there = its.filter((row) => row.frame_no < frame_no).length;
    const known = lost
      .filter((one) => one.kind === 'click' && one.log_partition === log_partition && one.producer_id === producer_id)
      .map(({ frame_from, frame_to }) => Math.min(frame_to, frame_no - 1) - Math.max(frame_from, previous + 1) + 1);
    const frames = known.reduce((left, count) => left - Math.max(0, count), frame_no - previous - 1 - there);
    const records = its.find((row) => row.frame_no === frame_no)?.missing ?? 0;
    const missing: MissingClicks[] = [];
    if (frames > 0) missing.push({ producer_id, frame_no: previous + 1, bucket_s, frames, records: frames });
    if (records > 0) missing.push({ producer_id, frame_no, bucket_s, frames: 0, records });
    return missing;
  });
}
