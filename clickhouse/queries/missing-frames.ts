/** Finds frames of clicks that were written and committed, but of which ClickHouse has no row any more. */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';

/** A producer's frames of clicks in one partition of the log, committed up to the mark. */
export interface CommittedLane {
  readonly partition: number;
  readonly producer_id: string;
  readonly mark: number;
}

export interface MissingFrames extends Omit<CommittedLane, 'mark'> {
  readonly from: number;
  readonly to: number;
}

const settings: Settings = { max_execution_time: 600, max_rows_to_read: 0 };
const ofLane = 'log_partition = {partition:UInt16} AND producer_id = {producer_id:String}';
const both = (condition: string) =>
  `SELECT frame_no, batch_no FROM clicks WHERE ${ofLane} AND ${condition}
   UNION ALL SELECT frame_no, batch_no FROM dead_letters WHERE kind = 'click' AND ${ofLane} AND ${condition}`;

/**
 * The missing frames of a lane after the last frame that was stored in a batch up to a given number. @param isWhole
 * true if the producer began after that batch, so that all of its frames are checked. @throws ClickHouseFailure
 */
export async function missingFrames(
  client: Pick<ClickHouse, 'query' | 'stream'>,
  { partition, producer_id, mark }: CommittedLane,
  batchNo: number,
  isWhole: boolean,
): Promise<MissingFrames[]> {
  const params = { partition, producer_id, batch_no: batchNo };
  const [before] = await client.query<{ last: number }>(
    `SELECT max(frame_no) AS last FROM (${both('batch_no <= {batch_no:UInt64}')})`,
    params,
    settings,
  );
  const missing: MissingFrames[] = [];
  let next = isWhole || Number(before?.last) > 0 ? Number(before?.last) + 1 : 0;
  const lots = client.stream<{ frame_no: number }>(
    `SELECT DISTINCT frame_no FROM (${both('batch_no > {batch_no:UInt64}')}) WHERE frame_no <= {mark:UInt64} ORDER BY frame_no`,
    { ...params, mark },
    settings,
  );
  for await (const lot of lots) {
    for (const { frame_no } of lot) {
      // If no earlier row is known, it is unknown which frames came before the first one.
      if (next > 0 && frame_no > next) missing.push({ partition, producer_id, from: next, to: frame_no - 1 });
      next = Math.max(next, frame_no + 1);
    }
  }
  if (next > 0 && next <= mark) missing.push({ partition, producer_id, from: next, to: mark });
  return missing;
}
