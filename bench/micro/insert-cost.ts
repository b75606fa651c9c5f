/**
 * Measures the CPU that ClickHouse needs for a row, raw table and rollups: `node deploy/packages/run.mjs bench/micro/insert-cost.ts [rounds]
 * [migrations] [waiting]`. `waiting` is the share of events that are stored while they wait for the install of their
 * device. Compares the newest schema with an older one (the first `migrations` migrations) in the same server, in
 * alternating rounds.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { RowWriter } from '#clickhouse/row-binary.ts';
import { newId } from '#common/ids.ts';
import { packageRoot } from '#common/process/paths.ts';
import { seededRandom } from '#common/seeded-random.ts';
import { startClickHouse } from '#deploy/local/clickhouse/spawn.ts';

const [rounds = 12, olderMigrations = 5, waitingShare = 0] = process.argv.slice(2).map(Number);
/** The migrations that introduced numbered batches and waiting events. */
const [numbered, waiting] = [6, 7];
const rowsPerInsert = 20_000;
const insertsPerRound = 4;
const [links, apps, visitors] = [2_000, 20, 50_000];
/** Clock ticks of /proc are hundredths of a second. */
const tickMs = 10;

type Batch = { readonly columns: string[]; readonly body: Buffer };
type Table = 'clicks' | 'events';

const random = seededRandom(7);
const pick = (count: number) => Math.floor(random() ** 3 * count);
const ids = (prefix: 'org' | 'app' | 'lnk', count: number) => Array.from({ length: count }, () => newId(prefix, 1e12));
const [orgIds, appIds, linkIds] = [ids('org', apps), ids('app', apps), ids('lnk', links)];
const agent =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Mobile/15E148 Safari/604.1';

/** A batch as ingest sends it; the column that identifies the batch differs between the schemas. */
function batchOf(table: Table, batchNo: number, migrations: number): Batch {
  const [isNumbered, isWaiting] = [migrations >= numbered, migrations >= waiting && table === 'events'];
  const writer = new RowWriter(rowsPerInsert * 500);
  const now = Date.now();
  const columns: string[] = [];
  for (let idx = 0; idx < rowsPerInsert; idx++) {
    const link = pick(links);
    const app = link % apps;
    const text: Record<string, string> = {
      [table === 'clicks' ? 'click_id' : 'event_id']: newId('clk', now),
      organization_id: orgIds[app] ?? '',
      app_id: appIds[app] ?? '',
      link_id: linkIds[link] ?? '',
      ...(table === 'clicks'
        ? { user_agent: agent, os: 'iOS', browser: 'Safari' }
        : { name: 'open', properties: '{"a":1}' }),
      platform: ['ios', 'android', 'desktop'][idx % 3] ?? '',
      country: `C${pick(40)}`,
      campaign: link % 10 < 3 ? '' : `campaign_${link % 40}`,
      producer_id: 'p'.repeat(26),
      ...(isNumbered ? {} : { batch_id: '0b5d7c3e-8c1c-4e57-9c26-0e8f6c2c6a10' }),
    };
    if (idx === 0)
      columns.push(
        ...Object.keys(text),
        'time',
        'frame_no',
        ...(isNumbered ? ['log_partition', 'batch_no'] : []),
        'idx',
        ...(isWaiting ? ['waiting_keys'] : []),
      );
    for (const value of Object.values(text)) writer.string(value);
    writer.uint64(now + (idx % 700));
    writer.uint64(batchNo * 50 + Math.floor(idx / 500));
    if (isNumbered) {
      writer.encoded('\0\0');
      writer.uint64(batchNo);
    }
    writer.uint32(idx % 500);
    if (isWaiting) writer.strings(random() < waitingShare ? [`d:${newId('clk', now)}`] : []);
    if (table === 'clicks') {
      if (idx === 0) columns.push('visitor');
      writer.uint64(pick(visitors));
    }
  }
  return { columns, body: writer.bytes };
}

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;

const folder = mkdtempSync(join(tmpdir(), 'insert-cost-'));
const migrations = join(packageRoot(), 'clickhouse', 'migrations');
const older = join(folder, 'older');
for (const name of readdirSync(migrations).sort().slice(0, olderMigrations))
  cpSync(join(migrations, name), join(older, name));
const server = await startClickHouse({ dataDir: join(folder, 'clickhouse'), port: 0 });
const schemas = await Promise.all(
  [
    ['before', older],
    ['after', migrations],
  ].map(async ([name = '', from = '']) => {
    const client = new ClickHouse({ url: `${server.url}/${name}`, requestTimeoutMs: 600_000 });
    await migrateClickHouse(client, { retentionDays: 730, folder: from });
    return { name, client };
  }),
);
const tables = ['clicks', 'events'] as const;
for (const { client } of schemas) await client.command('SYSTEM STOP MERGES');
const costs = new Map<string, number[]>();
let batchNo = Date.now();
for (let round = 0; round <= rounds; round++) {
  for (const table of tables) {
    for (const { name, client } of round % 2 === 0 ? schemas : [...schemas].reverse()) {
      const batches = Array.from({ length: insertsPerRound }, () =>
        batchOf(table, ++batchNo, name === 'after' ? Number.POSITIVE_INFINITY : olderMigrations),
      );
      const before = cpuMs(server.pid);
      for (const { columns, body } of batches) {
        const outcome = await client.insert(table, body, {
          token: String(Math.random()),
          format: 'RowBinary',
          columns,
        });
        if (outcome.kind !== 'written') throw new Error(outcome.message);
      }
      const cost = ((cpuMs(server.pid) - before) * 1_000) / (rowsPerInsert * insertsPerRound);
      const key = `${table} insert ${name}`;
      // The first round warms up.
      if (round > 0) costs.set(key, [...(costs.get(key) ?? []), cost]);
    }
  }
}
for (const { client } of schemas) await client.command('SYSTEM START MERGES');
for (const table of tables) {
  for (const { name, client } of schemas) {
    const before = cpuMs(server.pid);
    for (const one of [table, `${table}_by_link`, `${table}_by_dimension`])
      await client.command(`OPTIMIZE TABLE ${one} FINAL`);
    const rows = rowsPerInsert * insertsPerRound * (rounds + 1);
    costs.set(`${table} merge ${name}`, [((cpuMs(server.pid) - before) * 1_000) / rows]);
  }
}
for (const [what, values] of costs) {
  const spread = values.length > 1 ? ` (${Math.min(...values).toFixed(2)}–${Math.max(...values).toFixed(2)})` : '';
  console.log(`${what.padEnd(24)} ${median(values).toFixed(2)} µs a row${spread}`);
}
await Promise.all(schemas.map(({ client }) => client.close()));
await server.stop();
rmSync(folder, { recursive: true });
