/**
 * Clicks that are not there. Frames of a producer are numbered without gaps, and so are the records of a frame; a click is a
 * row of `clicks` or, when it could not be one, a dead letter. So a number that is left out is a click that was lost.
 *
 * Only clicks can be told so: what an SDK sent twice is dropped and leaves no row, and its frames are numbered by partitions
 * of the log that no row knows. Nor can the last records of a frame, or frames after a producer's last.
 */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';

export interface MissingClicks {
  readonly producer_id: string;
  /** The first missing frame, or the frame in which records are missing. */
  readonly frame_no: number;
  /** Beginning of the hour of what stands behind the gap, epoch seconds. */
  readonly bucket_s: number;
  /** Frames that are missing; 0 when only records of one are. */
  readonly frames: number;
  /** Records that are missing, at least: each missing frame had one or more. */
  readonly records: number;
}

/** Gaps that are looked at again; when there are more, the first of them are enough to raise an alarm. */
const gapsMax = 100;
/** How far back the frame before is looked for: what a producer wrote earlier is followed by a gap that is not seen. */
const lookBackMs = 86_400_000;

const seen = `SELECT producer_id, frame_no, idx, time FROM clicks WHERE time >= fromUnixTimestamp64Milli({back:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})
  UNION ALL SELECT producer_id, frame_no, idx, time FROM dead_letters
  WHERE kind = 'click' AND time >= fromUnixTimestamp64Milli({back:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})`;

interface GapRow {
  readonly producer_id: string;
  readonly frame_no: number;
  readonly previous: number;
  readonly records: number;
  readonly bucket_s: number;
}

/**
 * Gaps whose end lies in [from, to), epoch ms.
 * @throws ClickHouseFailure
 */
export async function missingClicks(
  client: Pick<ClickHouse, 'query'>,
  from: number,
  to: number,
  settings: Settings,
): Promise<MissingClicks[]> {
  const gaps = await client.query<GapRow>(
    `SELECT producer_id, frame_no, previous, records, toUnixTimestamp(toStartOfHour(at, 'UTC')) AS bucket_s FROM (
  SELECT producer_id, frame_no, max(time) AS at, toInt64(max(idx)) + 1 - toInt64(uniqExact(idx)) AS records,
    lagInFrame(frame_no, 1, toUInt64(frame_no - 1)) OVER (PARTITION BY producer_id ORDER BY frame_no) AS previous
  FROM (${seen}) GROUP BY producer_id, frame_no)
WHERE at >= fromUnixTimestamp64Milli({from:Int64}) AND (previous + 1 < frame_no OR records > 0)
ORDER BY producer_id, frame_no LIMIT {gaps_max:UInt32}`,
    { back: from - lookBackMs, from, to, gaps_max: gapsMax },
    settings,
  );
  const missing: MissingClicks[] = [];
  for (const gap of gaps) missing.push(...(await confirmedGap(client, gap, settings)));
  return missing;
}

/** A clock that was set may have put a frame elsewhere in time: whatever its time, it is not missing then. */
async function confirmedGap(
  client: Pick<ClickHouse, 'query'>,
  { producer_id, frame_no, previous, records, bucket_s }: GapRow,
  settings: Settings,
): Promise<MissingClicks[]> {
  const missing: MissingClicks[] = [];
  const between = frame_no - previous - 1;
  if (between > 0) {
    const elsewhere = await countFrames(client, producer_id, previous + 1, frame_no - 1, settings);
    const frames = between - elsewhere.frames;
    if (frames > 0) missing.push({ producer_id, frame_no: previous + 1, bucket_s, frames, records: frames });
  }
  if (records > 0) {
    const whole = await countFrames(client, producer_id, frame_no, frame_no, settings);
    if (whole.missing > 0) missing.push({ producer_id, frame_no, bucket_s, frames: 0, records: whole.missing });
  }
  return missing;
}

async function countFrames(
  client: Pick<ClickHouse, 'query'>,
  producer_id: string,
  first: number,
  last: number,
  settings: Settings,
): Promise<{ frames: number; missing: number }> {
  const where = 'producer_id = {producer_id:String} AND frame_no BETWEEN {first:UInt64} AND {last:UInt64}';
  const rows = await client.query<{ frames: number; missing: number }>(
    `SELECT uniqExact(frame_no) AS frames, toInt64(max(idx)) + 1 - toInt64(uniqExact(idx)) AS missing FROM (
  SELECT frame_no, idx FROM clicks WHERE ${where} UNION ALL SELECT frame_no, idx FROM dead_letters WHERE kind = 'click' AND ${where})`,
    { producer_id, first, last },
    settings,
  );
  return rows[0] ?? { frames: 0, missing: 0 };
}
