/** The query that compares a rollup with its raw rows, for one log partition and a time range. */
import { identifier } from '#clickhouse/client.ts';
import { columnsOf, type Rollup } from '#clickhouse/rollups.ts';

/** Conditions for cells and for raw rows of a time range; parameters: from, to (epoch ms). */
export const inDay =
  'bucket >= fromUnixTimestamp64Milli({from:Int64}) AND bucket < fromUnixTimestamp64Milli({to:Int64})';
export const inTime = 'time >= fromUnixTimestamp64Milli({from:Int64}) AND time < fromUnixTimestamp64Milli({to:Int64})';

/** The cells of a rollup that differ from the raw rows, each with the amount to add. */
export function rollupDifferences(rollup: Rollup): string {
  const columns = columnsOf(rollup);
  const sums: readonly string[] = columns.filter((name) => /^(rows|conversions|revenue)$/.test(name));
  const hasUniques = columns.includes('visitors');
  const keys = columns.filter((name) => !sums.includes(name) && name !== 'visitors' && name !== 'batch_no');
  const signed = (name: string) => (name === 'revenue' ? name : `toInt64(${name})`);
  const side = (isRaw: 0 | 1, from: string) =>
    `SELECT ${keys.join(', ')}, ${sums.map((name) => `${isRaw === 1 ? '' : '-'}${signed(name)} AS n_${name}`).join(', ')},
       ${hasUniques ? 'visitors AS v, ' : ''}batch_no AS b, ${isRaw} AS is_raw FROM ${from}`;
  const raw = rollup.select(`log_partition = {partition:UInt16} AND ${inTime}`);
  const kept = `${identifier(rollup.table)} WHERE log_partition = {partition:UInt16} AND ${inDay}`;
  const uniques = (isRaw: 0 | 1) => `toInt64(uniqCombinedMergeIf(15)(v, is_raw = ${isRaw}))`;
  return `SELECT ${keys.join(', ')}, ${sums.map((name) => `${name === 'revenue' ? 'd_revenue' : `toUInt64(d_${name})`} AS ${name}`).join(', ')},
      ${hasUniques ? 'uniqCombinedMergeStateIf(15)(v, is_raw = 1) AS visitors, ' : ''}max(b) AS batch_no,
      ${sums.map((name) => `sum(n_${name}) AS d_${name}`).join(', ')},
      ${hasUniques ? `abs(${uniques(1)} - ${uniques(0)}) > 1 + 0.02 * ${uniques(0)}` : '0'} AS are_uniques_wrong
    FROM (${side(1, `(${raw})`)} UNION ALL ${side(0, kept)})
    GROUP BY ${keys.join(', ')}
    HAVING ${sums.map((name) => `d_${name} != 0`).join(' OR ')} OR are_uniques_wrong`;
}
