/** Reads the clicks of a `click.batch`, whose message has only their position. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { type BatchPlace, clicksOfPart, webhookSettings } from '#clickhouse/queries/batch-records.ts';
import { CLICKS_MAX } from '#common/webhooks/webhook-events.ts';

/** As stored by `record-messages.ts`. */
interface ClickBatch extends BatchPlace {
  readonly app_ids: readonly string[] | null;
  readonly part: number;
}

/** @param wantedApps the only apps whose clicks are sent; null: all. @throws ClickHouseFailure */
export type ReadClicks = (
  organizationId: string,
  data: Readonly<Record<string, unknown>>,
  wantedApps: readonly string[] | null,
) => Promise<readonly object[]>;

export function clicksIn(clickhouse: ClickHouse): ReadClicks {
  return (organizationId, data, wantedApps) => {
    const { app_ids, part, ...place } = data as unknown as ClickBatch;
    const page = { limit: CLICKS_MAX, offset: part * CLICKS_MAX };
    const { sql, params } = clicksOfPart(organizationId, app_ids, place, page, wantedApps);
    return clickhouse.query<object>(sql, params, webhookSettings);
  };
}
