/** Fills ClickHouse with generated records month by month, starting with the newest, each with its rollups. */
import type { ClickHouse, Settings } from '#clickhouse/client.ts';
import { columnsOf, kinds, rollups } from '#clickhouse/rollups.ts';
import { DAY_MS } from '#common/durations.ts';
import { makeLinks } from './made-up-links.ts';
import { insertDay, shareOf } from './made-up-records.ts';

export interface MadeUp {
  /** Clicks of the whole period. */
  readonly clicks: number;
  readonly days: number;
  /** End of the last day, epoch ms, a UTC midnight. */
  readonly endMs: number;
}

/** Months generated concurrently: one for each core of a small machine. */
const sideBySide = 2;
const settings: Settings = {
  async_insert: 0,
  insert_deduplicate: 0,
  max_threads: 1,
  max_insert_threads: 1,
  max_execution_time: 3_600,
  max_memory_usage: 5_000_000_000,
};
/** For a day of raw rows: it becomes one part, in the order in which its rows are generated. */
const wholeDays: Settings = {
  ...settings,
  max_insert_block_size: 4_000_000,
  min_insert_block_size_rows: 4_000_000,
  min_insert_block_size_bytes: 0,
  // Rows must be numbered after the rows of a link were replicated, not before.
  query_plan_lift_up_array_join: 0,
};
/** For rollups. Raw rows are sorted by app and day, so the groups of an app are finished before the next app begins. */
const inOrder: Settings = {
  ...settings,
  optimize_aggregation_in_order: 1,
  max_insert_block_size: 1_000_000,
  min_insert_block_size_rows: 1_000_000,
  min_insert_block_size_bytes: 0,
};

/** @param onProgress is called with the number of clicks done and the total. */
export async function makeUpRecords(
  client: ClickHouse,
  wanted: MadeUp,
  onProgress: (done: number, all: number) => void,
): Promise<void> {
  await makeLinks(client);
  const starts = Array.from({ length: wanted.days }, (_, day) => wanted.endMs - (wanted.days - day) * DAY_MS);
  const months = [...new Set(starts.map(monthOf))].reverse();
  const clicks = wanted.clicks / wanted.days;
  const all = clicks * (1 + shareOf.installs + shareOf.events) * (starts.length + rollupWork * starts.length);
  let done = 0;
  const advance = (days: number) => {
    done += clicks * (1 + shareOf.installs + shareOf.events) * days;
    onProgress(Math.round((done * wanted.clicks) / all), wanted.clicks);
  };
  await inTurns(months, async (month) => {
    const days = starts.filter((ms) => monthOf(ms) === month);
    for (const kind of kinds) {
      await fillPartition(client, kind, month, async (into) => {
        for (const startMs of days) {
          await client.command(insertDay(kind, into, { startMs, clicks }), {}, wholeDays);
          if (kind === 'clicks') advance(1);
        }
      });
    }
    for (const rollup of rollups) {
      await fillPartition(client, rollup.table, month, (into) =>
        client.command(
          `INSERT INTO ${into} (${columnsOf(rollup).join(', ')}) ${rollup.select(`toYYYYMM(time) = ${month}`)}`,
          {},
          inOrder,
        ),
      );
      advance((days.length * rollupWork) / rollups.length);
    }
  });
  await client.command('DROP TABLE made_links SYNC');
}

/** The cost of a day's rollups, expressed in days of raw rows. */
const rollupWork = 2;

const monthOf = (ms: number) => new Date(ms).toISOString().slice(0, 7).replace('-', '');

/**
 * Fills a table and moves it into the real one as a partition: rows that are moved fire no views, and reach the disk
 * only at the end.
 */
async function fillPartition(
  client: ClickHouse,
  table: string,
  month: string,
  fill: (into: string) => Promise<void>,
): Promise<void> {
  const into = `made_${table}_${month}`;
  await client.command(`DROP TABLE IF EXISTS ${into} SYNC`);
  await client.command(`CREATE TABLE ${into} AS ${table}`);
  await client.command(
    `ALTER TABLE ${into} MODIFY SETTING fsync_after_insert = 0, fsync_part_directory = 0, min_parts_to_merge_at_once = 1000`,
  );
  await fill(into);
  await client.command(`OPTIMIZE TABLE ${into} FINAL`, {}, { max_execution_time: 3_600 });
  await client.command(`ALTER TABLE ${table} REPLACE PARTITION ${month} FROM ${into}`);
  await client.command(`DROP TABLE ${into} SYNC`);
}

async function inTurns<T>(tasks: readonly T[], run: (task: T) => Promise<void>): Promise<void> {
  const waiting = [...tasks];
  const lane = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await run(next);
  };
  await Promise.all(Array.from({ length: sideBySide }, lane));
}
