/**
 * The tables of ClickHouse as lines of TabSeparated, one file for each partition, so that an insert has rows of one. Rollups
 * are not among them: views build them again from the rows that are inserted, as the audit demands.
 */
import { type ClickHouse, identifier } from '#clickhouse/client.ts';
import { rollups } from '#clickhouse/rollups.ts';
import { StartupError } from '#deploy/local/child.ts';

export interface ClickHousePart {
  readonly table: string;
  /** '' for a table without partitions. */
  readonly partition: string;
}

const rollupTables = new Set(rollups.map(({ table }) => table));

export async function partsOf(clickhouse: ClickHouse): Promise<ClickHousePart[]> {
  const parts = await clickhouse.query<ClickHousePart>(
    `SELECT DISTINCT table, partition_id AS partition FROM system.parts
      WHERE database = currentDatabase() AND active AND rows > 0 AND table != 'migrations' ORDER BY table, partition`,
  );
  // Fences last: they keep out rows with older numbers.
  return [...parts.filter(({ table }) => !rollupTables.has(table)), { table: 'fences', partition: '' }];
}

async function columnsOf(clickhouse: ClickHouse, table: string): Promise<string[]> {
  const columns = await clickhouse.query<{ name: string }>(
    `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
        AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY name`,
    { table },
  );
  return columns.map(({ name }) => name);
}

export async function* linesOf(clickhouse: ClickHouse, part: ClickHousePart): AsyncGenerator<string[]> {
  const columns = (await columnsOf(clickhouse, part.table)).map(identifier).join(', ');
  const where = part.partition === '' ? '' : ' WHERE _partition_id = {partition:String}';
  yield* clickhouse.lines(`SELECT ${columns} FROM ${identifier(part.table)}${where}`, { partition: part.partition });
}

/** @param run differs between imports, so that rows of a repeated one are not taken for those of the first. */
export async function addLines(
  clickhouse: ClickHouse,
  { table, partition }: ClickHousePart,
  batches: AsyncIterable<readonly string[]>,
  run: string,
): Promise<number> {
  const columns = await columnsOf(clickhouse, table);
  let rows = 0;
  let number = 0;
  for await (const batch of batches) {
    const token = `${run}/${table}/${partition}/${number++}`;
    const bytes = Buffer.from(`${batch.join('\n')}\n`);
    const answer = await clickhouse.insert(table, bytes, { token, format: 'TabSeparated', columns });
    if (answer.kind !== 'written')
      throw new StartupError(`ClickHouse did not store rows of ${table}: ${answer.message}`);
    rows += batch.length;
  }
  return rows;
}

async function storedTables(clickhouse: ClickHouse): Promise<string[]> {
  const tables = await clickhouse.query<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND name != 'migrations'
        AND (engine LIKE '%MergeTree' OR engine = 'Join') ORDER BY name`,
  );
  return tables.map(({ name }) => name);
}

export async function countRows(clickhouse: ClickHouse, table: string): Promise<number> {
  const [row] = await clickhouse.query<{ rows: number }>(`SELECT count() AS rows FROM ${identifier(table)}`);
  return row?.rows ?? 0;
}

export async function tablesWithRows(clickhouse: ClickHouse): Promise<string[]> {
  const found: string[] = [];
  for (const table of await storedTables(clickhouse)) {
    if ((await countRows(clickhouse, table)) > 0) found.push(table);
  }
  return found;
}

export async function emptyStore(clickhouse: ClickHouse): Promise<void> {
  for (const table of await storedTables(clickhouse)) await clickhouse.command(`TRUNCATE TABLE ${identifier(table)}`);
}

export async function clickhouseMigrations(clickhouse: ClickHouse): Promise<string[]> {
  const [there] = await clickhouse.query(
    'SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = {name:String}',
    {
      name: 'migrations',
    },
  );
  if (there === undefined) return [];
  const found = await clickhouse.query<{ name: string }>(
    `SELECT concat(leftPad(toString(number), 4, '0'), ' ', any(sha256)) AS name FROM migrations GROUP BY number ORDER BY number`,
  );
  return found.map(({ name }) => name);
}
