import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClickHouse, ClickHouseFailure } from '#clickhouse/client.ts';
import { clickhouseForTest, type TestDatabase } from '#testing/servers.ts';
import { HourlyAudit } from './hourly-audit.ts';

const nowMs = Date.parse('2026-04-10T12:30:00Z');
const log = { warn: () => undefined, error: () => undefined };
let store: TestDatabase;
let client: ClickHouse;

beforeAll(async () => {
  store = await clickhouseForTest();
  client = new ClickHouse({ url: store.url });
});
afterAll(async () => {
  await client.close();
  await store.stop();
});

async function figuresOf(metrics: Registry): Promise<Record<string, number>> {
  const values = (await metrics.getSingleMetric('audit_faults')?.get())?.values ?? [];
  return Object.fromEntries(values.map((one) => [String(one.labels['what']), one.value]));
}

test('the last closed hour is audited, and its faults are metrics', async () => {
  await client.command(
    "INSERT INTO clicks (click_id, organization_id, app_id, time, producer_id, frame_no) VALUES ('a', 'o', 'p', '2026-04-10 11:10:00', 'edge', 1), ('b', 'o', 'p', '2026-04-10 11:20:00', 'edge', 3), ('c', 'o', 'p', '2026-04-10 12:20:00', 'edge', 7)",
  );
  const metrics = new Registry();
  const audit = new HourlyAudit({ clickhouse: client, metrics, log, clock: () => nowMs });
  expect(await audit.look()).toBe(Date.parse('2026-04-10T13:10:00Z'));
  expect(await figuresOf(metrics)).toEqual({ lost: 1, duplicated: 0, rollup_difference: 0 });
  const [audited] = (await metrics.getSingleMetric('audit_to_seconds')?.get())?.values ?? [];
  expect(audited?.value).toBe(Date.parse('2026-04-10T12:00:00Z') / 1000);
});

test('an audit that ClickHouse does not answer is repeated, and reports nothing meanwhile', async () => {
  const metrics = new Registry();
  const unreachable = {
    query: () => Promise.reject(new ClickHouseFailure('unavailable', 0, 'unreachable', undefined)),
  };
  const audit = new HourlyAudit({ clickhouse: unreachable, metrics, log, clock: () => nowMs });
  expect(await audit.look()).toBe(nowMs + 300_000);
  expect(await figuresOf(metrics)).toEqual({});
});
