/** Reads the query string of a click, for postbacks whose template uses its parameters. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { HOUR_MS } from '#common/durations.ts';
import { isId, timeOfId } from '#common/ids.ts';

/** A click is stored under the time of its id, unless its edge's clock was wrong. */
const marginMs = HOUR_MS;

/** Empty for a click that is unknown or no longer stored. @throws ClickHouseFailure */
export type ReadQuery = (organizationId: string, data: Readonly<Record<string, unknown>>) => Promise<string>;

export function queriesIn(clickhouse: ClickHouse): ReadQuery {
  return async (organization_id, { app_id, click_id }) => {
    if (typeof click_id !== 'string' || !isId('clk', click_id)) return '';
    const at = timeOfId(click_id);
    const [row] = await clickhouse.query<{ query: string }>(
      `SELECT query FROM clicks
        WHERE organization_id = {organization_id:String} AND app_id = {app_id:String} AND click_id = {click_id:String}
          AND time BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64}) LIMIT 1`,
      { organization_id, app_id: String(app_id), click_id, from: at - marginMs, to: at + marginMs },
    );
    return row?.query ?? '';
  };
}
