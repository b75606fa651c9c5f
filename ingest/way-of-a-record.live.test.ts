import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse } from '#clickhouse/client.ts';
import { migrateClickHouse } from '#clickhouse/migrate.ts';
import { loadConfig } from '#common/config.ts';
import { newId } from '#common/ids.ts';
import { Journal } from '#common/log/journal.ts';
import { keepLogStream } from '#common/log/log-stream.ts';
import { Publisher } from '#common/log/publisher.ts';
import { clickJson } from '#common/log/record.ts';
import { Nats } from '#common/nats.ts';
import {
  natsForTest,
  ownClickhouseForTest,
  postgresForTest,
  type TestDatabase,
  type TestServer,
} from '#deploy/local/test-servers.ts';
import { noFailpoints } from './failpoints.ts';
import { Ingest } from './ingest.ts';

let postgres: TestDatabase;
let clickhouse: TestServer;
let nats: TestServer;
let folder: string;
let client: ClickHouse;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'way-'));
  [postgres, clickhouse, nats] = await Promise.all([postgresForTest(), ownClickhouseForTest(), natsForTest()]);
  client = new ClickHouse({ url: `${clickhouse.url}/test` });
  await migrateClickHouse(client, { retentionDays: 730 });
});

afterAll(async () => {
  await client.close();
  await Promise.all([postgres.stop(), clickhouse.stop(), nats.stop()]);
  rmSync(folder, { recursive: true });
});

const [organization_id, app_id, link_id] = [newId('org', 1), newId('app', 1), newId('lnk', 1)];

function click(time: number): string {
  return clickJson({
    click_id: newId('clk', time),
    organization_id,
    app_id,
    link_id,
    time,
    ip: '8.8.8.8',
    privacy_mode: 'anonymize_ip',
    user_agent:
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Version/17.4 Mobile/15E148 Safari/604.1',
    language: 'de-DE,de;q=0.9',
    referrer: 'https://example.com/a',
    query: 'a=b',
    campaign: 'spring',
    utm_source: '',
    utm_medium: '',
    utm_campaign: '',
    utm_term: '',
    utm_content: '',
    trigger: 'link',
    is_prefetch: false,
    is_preview: false,
  });
}

test('clicks that were journalled stand in ClickHouse once, enriched, in the raw table and in the rollup', async () => {
  const config = loadConfig([], {
    DATABASE_URL: postgres.url,
    CLICKHOUSE_URL: `${clickhouse.url}/test`,
    NATS_URL: nats.url,
    INSTANCE: 'ingest-0',
    LOG_BYTES_MAX: '1073741824',
  });
  const journal = await Journal.open({
    root: join(folder, 'journal'),
    slot: 'edge-0',
    segmentBytes: 100_000,
    bytesMax: 1e9,
    sync: 'after_answer',
  });
  const connection = await Nats.connect({ url: nats.url, name: 'test' });
  const publisher = new Publisher({
    root: join(folder, 'journal'),
    machine: 'test',
    nats: connection,
    clock: Date.now,
    ensureLog: () => keepLogStream(connection, { bytesMax: config.LOG_BYTES_MAX, replicas: 1 }, () => undefined),
    onDamage: (producer, reason) => expect.fail(`${producer}: ${reason}`),
    log: () => undefined,
  });
  await publisher.start();
  const ingest = await Ingest.create({
    config,
    failpoints: noFailpoints,
    log: (fields, line) => console.log(line, fields),
  });
  ingest.start();
  const lane = journal.lane('click', 0);
  const now = Date.now();
  for (let n = 0; n < 2_000; n++) {
    await new Promise<void>((done) =>
      journal.append(lane, click(now + n), { committed: done, refused: () => expect.fail() }),
    );
  }
  await expect
    .poll(() => client.query('SELECT count() AS rows, uniqExact(click_id) AS distinct FROM clicks'), {
      timeout: 15_000,
    })
    .toEqual([{ rows: 2_000, distinct: 2_000 }]);
  const [row] = await client.query('SELECT * FROM clicks LIMIT 1');
  expect(row).toMatchObject({
    ip: '8.8.8.0',
    platform: 'ios',
    os: 'iOS',
    os_version: '17.4',
    device_model: 'iPhone',
    country: 'US',
    language: 'de-DE',
    referrer_host: 'example.com',
    is_bot: false,
  });
  expect(
    await client.query('SELECT sum(r.rows) AS rows, sumIf(r.rows, NOT is_bot) AS clicks FROM clicks_by_link AS r'),
  ).toEqual([{ rows: 2_000, clicks: 2_000 }]);
  console.log(publisher.counters, ingest.counters, ingest.pipeline.figures, ingest.owners[0]?.queue?.counters);
  await journal.close();
  await expect.poll(() => publisher.counters.segments_deleted, { timeout: 10_000 }).toBeGreaterThan(5);
  await ingest.stop();
  await publisher.stop();
  await connection.close();
});
