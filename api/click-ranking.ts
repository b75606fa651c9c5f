/** Ranks links by clicks, for lists that are sorted by them. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { RANKED_LINKS_MAX, type RankedLink } from './deps.ts';

const ranking = `
  SELECT link_id, sum(rows) AS total
    FROM clicks_by_link
   WHERE organization_id IN {organization_ids:Array(String)} AND NOT is_bot AND ({app_id:String} = '' OR app_id = {app_id:String})
   GROUP BY link_id
   ORDER BY total DESC, link_id DESC LIMIT {limit:UInt32}`;

/** Links of these organizations (of one app, if given), by clicks of people, most first. @throws ClickHouseFailure */
export async function rankByClicks(
  clickhouse: ClickHouse,
  organizationIds: readonly string[],
  appId: string | null,
): Promise<RankedLink[]> {
  const params = { organization_ids: [...organizationIds], app_id: appId ?? '', limit: RANKED_LINKS_MAX };
  const rows = await clickhouse.query<{ link_id: string; total: number }>(ranking, params);
  return rows.map((row) => ({ link_id: row.link_id, clicks: row.total }));
}
