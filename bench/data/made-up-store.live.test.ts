/**
 * Tests that generated records have the same rollups as ingested ones.
 * @module-tag slow
 */
import { expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { audit } from '#clickhouse/queries/audit.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import { clickhouseForTest } from '#testing/servers.ts';
import { makeUpRecords } from './made-up-store.ts';

test('records that a benchmark generates have the rollups that ingest would have stored', async () => {
  const store = await clickhouseForTest();
  const client = new ClickHouse({ url: store.url, requestTimeoutMs: MINUTE_MS });
  const endMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  await makeUpRecords(client, { clicks: 2_000, days: 2, endMs }, () => undefined);
  for (const table of ['clicks', 'clicks_by_link', 'installs_by_dimension', 'events_by_link']) {
    const [row] = await client.query<{ rows: number }>(`SELECT count() AS rows FROM ${table}`);
    expect(Number(row?.rows), table).toBeGreaterThan(0);
  }
  const report = await audit(client, { from_ms: endMs - 2 * DAY_MS, to_ms: endMs });
  expect(report).toMatchObject({ duplicated: 0, rollup_difference: 0 });
  await client.close();
  await store.stop();
});
