/**
 * Measures how long ingest takes to answer the SDK edge's question about a click that is no longer in Redis: by its age,
 * at the end of the generated records, for the tenant that has a tenth of them.
 */
import { build } from 'hdr-histogram-js';
import type { AnalyticsStage } from '#bench/data/analytics-stage.ts';
import { tenantOf } from '#bench/data/made-up-links.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { Postgres } from '#common/stores/postgres.ts';
import { ClickLookupServer } from '#ingest/attribution/click-archive.ts';

const ages = { '1 hour': HOUR_MS, '1 day': DAY_MS, '6 days': 6 * DAY_MS };
const lookups = 1_000;

/** Times are in milliseconds. */
export interface LookupRow {
  readonly age: string;
  readonly lookups: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Looks each of the clicks up once, one after the other. @throws if one is not found. */
export async function measureLookups(stage: AnalyticsStage): Promise<LookupRow[]> {
  const postgres = new Postgres({ url: stage.postgresUrl, name: 'bench' });
  const server = new ClickLookupServer(stage.clickhouse, postgres);
  const endMs = await stage.end();
  const rows: LookupRow[] = [];
  for (const [age, ms] of Object.entries(ages)) {
    const histogram = build({ numberOfSignificantValueDigits: 3 });
    for (const question of await clicksBefore(stage, endMs - ms)) {
      const from = performance.now();
      const answer = await server.answer(question);
      histogram.recordValue(Math.round((performance.now() - from) * 1000));
      if (typeof answer === 'string') throw new Error(`${question.click_id} is ${answer}`);
    }
    const of = (percentile: number) => Math.round(histogram.getValueAtPercentile(percentile) / 100) / 10;
    rows.push({ age, lookups: histogram.totalCount, p50: of(50), p99: of(99), max: of(100) });
  }
  await postgres.close();
  return rows;
}

/** Clicks of the largest tenant from the hour before that time, in no order. */
function clicksBefore(stage: AnalyticsStage, ms: number) {
  return stage.clickhouse.query<{ organization_id: string; app_id: string; click_id: string }>(
    `SELECT organization_id, app_id, click_id FROM clicks
      WHERE organization_id = (${tenantOf(0)})
        AND time BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64})
      ORDER BY cityHash64(click_id) LIMIT {lookups:UInt32}`,
    { from: ms - HOUR_MS, to: ms, lookups },
  );
}
