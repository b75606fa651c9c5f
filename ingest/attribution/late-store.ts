/** ClickHouse queries about installs that arrived after their events: one query each, cheap if no events wait. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { isInstall } from '#clickhouse/rollups.ts';
import type { EventRow } from '#clickhouse/rows-events.ts';
import { CAMPAIGN_FIELDS, type CampaignTexts } from '#common/campaign-fields.ts';
import type { Cursor } from './late-cursors.ts';

export interface BatchOfInstalls {
  readonly log_partition: number;
  readonly batch_no: number;
  /** Number of installs in the batch. */
  readonly n: number;
}

export interface KnownInstall extends Readonly<CampaignTexts> {
  readonly organization_id: string;
  readonly app_id: string;
  readonly install_id: string;
  readonly device_id: string;
  readonly time_ms: number;
  readonly link_id: string;
  readonly click_id: string;
  readonly platform: string;
  readonly country: string;
  readonly region: string;
  readonly city: string;
}

/** The criteria of the events to find. */
export interface WaitingFor {
  readonly partition: number;
  readonly organizations: readonly string[];
  readonly apps: readonly string[];
  readonly keys: readonly string[];
  /** Events that happened on this UTC day or later, epoch ms. */
  readonly sinceMs: number;
  /** Only events after this position in the log. */
  readonly after: Pick<EventRow, 'producer_id' | 'frame_no' | 'idx'> | null;
  readonly eventsMax: number;
}

/** Each throws ClickHouseFailure. */
export interface LateStore {
  /**
   * Batches with installs, above the first cursor and up to the second, in the partitions of the second; oldest first.
   */
  batchesWithInstalls(above: Cursor, upTo: Cursor, batchesMax: number): Promise<readonly BatchOfInstalls[]>;
  installsOf(batches: readonly BatchOfInstalls[]): Promise<readonly KnownInstall[]>;
  /** Events without an install that have one of these keys, in log order. */
  waiting(wanted: WaitingFor): Promise<readonly EventRow[]>;
  /**
   * The number of the first batch of a partition with an event that was stored without its install; 0 if there is none.
   */
  firstWaiting(partition: number): Promise<number>;
}

const texts = [
  ...'event_id organization_id app_id name install_id device_id user_id session_id link_id click_id'.split(' '),
  ...['platform', 'country', 'region', 'city', ...CAMPAIGN_FIELDS, 'revenue_currency', 'properties'],
];

type WaitingRow = Omit<EventRow, 'time' | 'received_at' | 'revenue_amount'> & {
  readonly time_ms: number;
  readonly received_ms: number;
  readonly amount: string | null;
};

export class ClickHouseLateStore implements LateStore {
  readonly #clickhouse: Pick<ClickHouse, 'query'>;

  constructor(clickhouse: Pick<ClickHouse, 'query'>) {
    this.#clickhouse = clickhouse;
  }

  async batchesWithInstalls(above: Cursor, upTo: Cursor, batchesMax: number): Promise<readonly BatchOfInstalls[]> {
    const of = Object.keys(upTo).map(Number);
    const low = of.map((partition) => above[partition] ?? 0);
    const high = Object.values(upTo);
    const rows = await this.#clickhouse.query<BatchOfInstalls>(
      `SELECT log_partition, batch_no, count() AS n FROM installs
        WHERE ${isInstall} AND batch_no > {low:UInt64} AND batch_no <= {high:UInt64}
          AND batch_no > transform(log_partition, {of:Array(UInt16)}, {above:Array(UInt64)}, {high:UInt64})
          AND batch_no <= transform(log_partition, {of:Array(UInt16)}, {up_to:Array(UInt64)}, toUInt64(0))
        GROUP BY log_partition, batch_no ORDER BY batch_no, log_partition LIMIT {batches_max:UInt32}`,
      { low: Math.min(...low), high: Math.max(...high), of, above: low, up_to: high, batches_max: batchesMax },
    );
    return rows.map((row) => ({ ...row, batch_no: Number(row.batch_no), n: Number(row.n) }));
  }

  async installsOf(batches: readonly BatchOfInstalls[]): Promise<readonly KnownInstall[]> {
    const numbers = batches.map(({ batch_no }) => batch_no);
    return await this.#clickhouse.query<KnownInstall>(
      `SELECT organization_id, app_id, install_id, device_id, toUnixTimestamp64Milli(time) AS time_ms, link_id, click_id,
              platform, country, region, city, campaign, utm_source, utm_medium, utm_campaign, utm_term, utm_content
         FROM installs WHERE ${isInstall} AND batch_no >= {first:UInt64} AND batch_no <= {last:UInt64}
          AND has(arrayZip({of:Array(UInt16)}, {numbers:Array(UInt64)}), (log_partition, batch_no))`,
      {
        ...{ first: Math.min(...numbers), last: Math.max(...numbers) },
        ...{ of: batches.map(({ log_partition }) => log_partition), numbers },
      },
    );
  }

  /** The row that reverses an event has its keys too: once that row exists, the event no longer waits. */
  async waiting({ partition, organizations, apps, keys, sinceMs, after, eventsMax }: WaitingFor): Promise<EventRow[]> {
    const behind =
      'AND (e.producer_id, e.frame_no, e.idx) > ({after_producer:String}, {after_frame:UInt64}, {after_idx:UInt32})';
    const rows = await this.#clickhouse.query<WaitingRow>(
      `SELECT producer_id, frame_no, idx, ${texts.map((name) => `any(e.${name}) AS ${name}`).join(', ')},
              any(e.is_conversion) AS is_conversion, any(e.waiting_keys) AS waiting_keys,
              toUnixTimestamp64Milli(any(e.time)) AS time_ms, toUnixTimestamp64Milli(any(e.received_at)) AS received_ms,
              any(toString(e.revenue_amount)) AS amount
         FROM events AS e
        WHERE e.organization_id IN {organizations:Array(String)} AND e.app_id IN {apps:Array(String)}
          AND toDate(e.time) >= toDate(fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')) AND e.log_partition = {partition:UInt16}
          AND hasAny(e.waiting_keys, {keys:Array(String)}) ${after === null ? '' : behind}
        GROUP BY producer_id, frame_no, idx HAVING max(e.is_learned) = 0
        ORDER BY producer_id, frame_no, idx LIMIT {events_max:UInt32}`,
      {
        ...{ organizations, apps, keys, since_ms: sinceMs, partition, events_max: eventsMax },
        ...(after && { after_producer: after.producer_id, after_frame: after.frame_no, after_idx: after.idx }),
      },
    );
    return rows.map(eventOf);
  }

  async firstWaiting(partition: number): Promise<number> {
    const [row] = await this.#clickhouse.query<{ first: number }>(
      'SELECT min(batch_no) AS first FROM events WHERE log_partition = {partition:UInt16} AND notEmpty(waiting_keys)',
      { partition },
    );
    return Number(row?.first ?? 0);
  }
}

function eventOf({ time_ms, received_ms, amount, ...row }: WaitingRow): EventRow {
  return {
    ...row,
    frame_no: Number(row.frame_no),
    time: time_ms,
    received_at: received_ms,
    revenue_amount: amount ?? '',
  };
}
