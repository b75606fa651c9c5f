/** Clicks as ClickHouse has them, by their ids. An id holds the time of its click, and the app is known: together they name a few granules. */
import type { ClickHouse } from '#clickhouse/client.ts';
import type { RecentClick } from '#common/attribution/click-lines.ts';
import { timeOfId } from '#common/ids.ts';

/** A click is made within this time of its id. */
const marginMs = 60_000;
/** Clicks of one question. */
export const clicksPerQuestionMax = 200;
/** A lookup that takes longer is given up: a device waits for its answer. */
const secondsMax = 5;

export interface ClickNames {
  readonly organizations: readonly string[];
  readonly apps: readonly string[];
  /** Well-formed; at most clicksPerQuestionMax. */
  readonly ids: readonly string[];
}

export interface StoredClicks {
  /** Those of these apps that are stored, in no order. @throws ClickHouseFailure */
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
