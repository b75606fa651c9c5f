/**
 * Reads clicks by id from ClickHouse. An id contains the time of its click; with the app, it narrows the search to a
 * few granules.
 */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { RecentClick } from '#common/attribution/click-lines.ts';
import { timeOfId } from '#common/ids.ts';

/** Maximum time between the creation of an id and its click. */
const marginMs = 60_000;
/** Maximum clicks per query. */
export const clicksPerQuestionMax = 200;
/** A slower lookup is cancelled, because a device waits for its answer. */
const secondsMax = 5;

export interface ClickNames {
  readonly organizations: readonly string[];
  readonly apps: readonly string[];
  /** Well-formed; at most clicksPerQuestionMax. */
  readonly ids: readonly string[];
}

export interface StoredClicks {
  /** The clicks of these apps that are stored, in no particular order. @throws ClickHouseFailure */
  find(names: ClickNames): Promise<readonly RecentClick[]>;
}

export class ClickHouseClicks implements StoredClicks {
  readonly #clickhouse: ClickHouse;

  constructor(clickhouse: ClickHouse) {
    this.#clickhouse = clickhouse;
  }

  async find({ organizations, apps, ids }: ClickNames): Promise<readonly RecentClick[]> {
    if (ids.length === 0) return [];
    const times = ids.map(timeOfId);
    return await this.#clickhouse.query<RecentClick>(
      `SELECT click_id, app_id, link_id, toUnixTimestamp64Milli(clicks.time) AS time, query, campaign,
              utm_source, utm_medium, utm_campaign, utm_term, utm_content, is_bot
         FROM clicks
        WHERE organization_id IN {organizations:Array(String)} AND app_id IN {apps:Array(String)} AND click_id IN {ids:Array(String)}
          AND clicks.time BETWEEN fromUnixTimestamp64Milli({from:Int64}) AND fromUnixTimestamp64Milli({to:Int64})
        LIMIT 1 BY click_id`,
      {
        organizations: [...organizations],
        apps: [...apps],
        ids: [...ids],
        from: Math.min(...times) - marginMs,
        to: Math.max(...times) + marginMs,
      },
      { max_execution_time: secondsMax },
    );
  }
}
