/** Tests which ClickHouse servers a reader and a writer use if one refuses connections. */
import { expect, test } from 'vitest';
import { clickhouseForTest } from '#testing/servers.ts';
import { ClickHouse, ClickHouseFailure } from './client.ts';

const reads = { executionSecondsMax: 10, rowsToReadMax: 1_000, resultRowsMax: 10 };
/** No server listens there. */
const closed = 'http://u:p@127.0.0.1:1/test';

test('a reader fails over to the next server if one refuses connections, and a writer does not', async () => {
  const store = await clickhouseForTest();
  const reader = new ClickHouse({ url: `${closed},${store.url}`, reads });
  const writer = new ClickHouse({ url: `${closed},${store.url}` });
  const alone = new ClickHouse({ url: `${closed},${closed}`, reads });
  for (let n = 0; n < 3; n++) expect(await reader.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  const lots: unknown[] = [];
  for await (const lot of reader.stream('SELECT 2 AS two')) lots.push(...lot);
  expect(lots).toEqual([{ two: 2 }]);
  expect(await reader.isReachable()).toBe(true);
  await expect(writer.query('SELECT 1')).rejects.toThrow(ClickHouseFailure);
  expect(await writer.isReachable()).toBe(false);
  await expect(alone.query('SELECT 1')).rejects.toThrow(ClickHouseFailure);
  // If a server answers with an error, the client does not switch to another one.
  await expect(reader.query('SELECT nothing')).rejects.toMatchObject({ kind: 'refused' });
  await Promise.all([reader, writer, alone].map((client) => client.close()));
  await store.stop();
});
