import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { clickhouseForTest, postgresForTest, type TestDatabase } from '#testing/servers.ts';
import { auditOfTrial } from './trial-restore.ts';

let servers: TestDatabase[];
let stores: { db: Postgres; clickhouse: ClickHouse };
const to_ms = Date.now();
beforeAll(async () => {
  const [postgres, clickhouse] = await Promise.all([postgresForTest(), clickhouseForTest()]);
  servers = [postgres, clickhouse];
  stores = {
    db: new Postgres({ url: postgres.url, name: 'test' }),
    clickhouse: new ClickHouse({ url: clickhouse.url }),
  };
  // Clicks of the frames 1 and 4: two are lost in between.
  for (const frame of [1, 4])
    await stores.clickhouse.command(
      `INSERT INTO clicks (click_id, organization_id, app_id, link_id, time, producer_id, frame_no, idx)
       VALUES ('c${frame}', 'org_1', 'app_1', 'lnk_1', fromUnixTimestamp64Milli(${to_ms - 3_600_000}), 'p', ${frame}, 0)`,
    );
});
afterAll(async () => {
  await Promise.all([stores.db.close(), stores.clickhouse.close()]);
  for (const server of servers) await server.stop();
});

test('a backup of an installation that has lost clicks is of use, and the loss is reported unless its journals account for it', async () => {
  expect(await auditOfTrial(stores, to_ms)).toMatchObject({ records: 2, lost: 2, rollup_difference: 0 });
  await stores.db.execute(
    `INSERT INTO ingest.lost_frames (partition, kind, producer_id, frame_from, frame_to, records) VALUES (0, 'click', 'p', 2, 3, 2)`,
  );
  const { faults } = await auditOfTrial(stores, to_ms);
  expect(faults.map(({ fault }) => fault)).toEqual(['frames_lost']);
});

test('a backup whose ClickHouse lacks rows that its Postgres knows to be stored is of no use', async () => {
  const day = Math.floor(to_ms / 86_400_000);
  await stores.db.execute(
    `INSERT INTO ingest.ledger (partition, batch_day, raw_table, month, rows, rows_again, batch_from, batch_to, time_from, time_to)
     VALUES (0, $1, 'events', $2, 5, 0, $3, $4, $3, $4)`,
    [day, new Date(to_ms).toISOString().slice(0, 7).replace('-', ''), to_ms - 3_600_000, to_ms - 3_000_000],
  );
  await expect(auditOfTrial(stores, to_ms)).rejects.toThrow(/not whole: 5 stored rows are missing/);
});
