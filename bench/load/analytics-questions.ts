/** The queries of a dashboard, with explicit ranges, so that records generated on another day give the same queries. */
import { tenantOf } from '#bench/data/made-up-links.ts';
import type { ClickHouse } from '#clickhouse/client.ts';
import { HOUR_MS } from '#common/durations.ts';

export interface Question {
  readonly name: string;
  /** Path below /v1; the query's days are shifted back by this many days. */
  readonly path: (daysBack: number) => string;
  /** Adds a filter that no other tenant uses. */
  readonly isOfBigTenant: boolean;
}

const dayMs = 24 * HOUR_MS;
const zone = 'timezone=Europe/Berlin';

/** @param endMs the UTC midnight after the last record. */
export async function questionsOf(client: ClickHouse, endMs: number): Promise<Question[]> {
  const [top] = await client.query<{ id: string }>(
    `SELECT link_id AS id FROM clicks_by_link WHERE organization_id = (${tenantOf(0)})
     GROUP BY id ORDER BY sum(rows) DESC LIMIT 1`,
  );
  const link = `/links/${top?.id}/stats`;
  return pathsAt(endMs, link, Date.now()).map(([name, path], at) => ({
    name,
    path: (daysBack) => pathsAt(endMs - daysBack * dayMs, link, daysBack === 0 ? Date.now() : 0)[at]?.[1] ?? path,
    isOfBigTenant: path.startsWith('/links/'),
  }));
}

/** Names and paths. @param nowMs the present, if a link's range should include it; else 0. */
function pathsAt(endMs: number, link: string, nowMs: number): readonly (readonly [string, string])[] {
  const date = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const month = `start=${date(endMs - 30 * dayMs)}&end=${date(endMs - dayMs)}`;
  // Ends in the early evening, so that no day is whole.
  const until = endMs - 6 * HOUR_MS;
  const day = `start=${new Date(until - dayMs).toISOString()}&end=${new Date(until).toISOString()}`;
  const year = `start=${date(endMs - 365 * dayMs)}&end=${date(endMs - dayMs)}`;
  // Up to the present, as in a dashboard, so that the last click is in the range.
  const monthToNow = `start=${date(endMs - 30 * dayMs)}&end=${date(Math.max(nowMs, endMs - dayMs))}`;
  return [
    ['overview, 30 days', `/analytics/overview?${month}`],
    ['overview, 30 days, Berlin', `/analytics/overview?${month}&${zone}`],
    ['overview, 24 hours', `/analytics/overview?${day}`],
    ['overview, 30 days, one platform', `/analytics/overview?${month}&platform=ios`],
    ['overview, 30 days, one campaign', `/analytics/overview?${month}&campaign=campaign_7`],
    ['overview, 30 days, platform and country', `/analytics/overview?${month}&platform=ios&country=DE`],
    ['overview, a year', `/analytics/overview?${year}`],
    ['time series, 30 days by day', `/analytics/timeseries?${month}&granularity=day`],
    ['time series, 30 days by day, Berlin', `/analytics/timeseries?${month}&granularity=day&${zone}`],
    ['time series, 24 hours by hour', `/analytics/timeseries?${day}&granularity=hour`],
    ['time series, 24 hours by hour, by platform', `/analytics/timeseries?${day}&granularity=hour&group_by=platform`],
    ['time series, 30 days by day, by platform', `/analytics/timeseries?${month}&granularity=day&group_by=platform`],
    ['time series, 30 days by day, by country', `/analytics/timeseries?${month}&granularity=day&group_by=country`],
    ['time series, 30 days by day, by campaign', `/analytics/timeseries?${month}&granularity=day&group_by=campaign`],
    ['time series, a year by month', `/analytics/timeseries?${year}&granularity=month`],
    ['top links, 30 days', `/analytics/top-links?${month}`],
    ['top links, 30 days, Berlin', `/analytics/top-links?${month}&${zone}`],
    ['top links, 24 hours', `/analytics/top-links?${day}`],
    ['top links, 30 days, by unique clicks', `/analytics/top-links?${month}&sort_by=unique_clicks`],
    ['top campaigns, 30 days', `/analytics/top-campaigns?${month}`],
    ['top campaigns, 24 hours', `/analytics/top-campaigns?${day}`],
    ['statistics of the top link, 30 days', `${link}?${monthToNow}`],
    ['statistics of the top link, 30 days by day, Berlin', `${link}?${monthToNow}&granularity=day&${zone}`],
    ['statistics of the top link, 24 hours', `${link}?${day}&granularity=hour`],
  ];
}
