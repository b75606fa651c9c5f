/**
 * The table `active_installs`: how many installs were active at each age, and their revenue. No view adds to it on
 * insert. Instead, `correction` computes from the records what its rows must be and adds the difference, so a second
 * correction changes nothing, and any error is gone after the next one.
 *
 * A cell belongs to the UTC day on which its installs reach its age. It depends on events of that day and of the days
 * next to it, and on installs up to that day. What the rollups reported about these records is stored with the cells,
 * in the same insert: while the rollups report the same, the cells of the day are right.
 */
import type { Params, Settings } from './client.ts';
import { isInstall } from './rollups.ts';

const dayMs = 86_400_000;
/** The maximum age that the API queries. */
const ageMax = 730;
export const cohortMs = 15 * 60_000;

/** Values of `age` with another meaning. Versions before the migration 0014 used -2. */
export const ages = {
  /** The installs of the cohort. */
  installed: -1,
  /** For a day, not a cohort: the number of its installs from which its cells and those of all later days were made. */
  installsSeen: -3,
  /**
   * For a day: the stamps of it and of the days next to it, over all their events. Its activity was made from these.
   */
  activitySeen: -4,
  /** The same over their events with revenue. Its revenue was made from these. */
  revenueSeen: -5,
  /** Revenue at age 0; the next ages follow. They are separate rows, so that retention does not read them. */
  revenue: 1_000,
} as const;

/** Columns of the table by which it can be filtered. */
export const cellColumns = ['app_id', 'link_id', 'campaign', 'platform', 'country'] as const;

const keys = ['organization_id', 'is_whole', 'age', ...cellColumns, 'cohort', 'day'].join(', ');
const ofOrganization = 'organization_id = {organization_id:String}';
const ofDays = 'day >= toDate({from:UInt16}) AND day <= toDate({to:UInt16})';

/** The cells of installs at `installed` (epoch ms): one for all links together, and one for each link. */
const cellsOf = (age: string, figures: string, from: string, currency = "''") =>
  `SELECT organization_id, is_whole, ${age} AS age, app_id,
  if(is_whole, '', link_id) AS link_id, if(is_whole, '', campaign) AS campaign, if(is_whole, '', platform) AS platform,
  if(is_whole, '', country) AS country, toDateTime(intDiv(installed, ${cohortMs}) * ${cohortMs / 1000}, 'UTC') AS cohort, day,
  ${currency} AS currency, ${figures} FROM (${from}) ARRAY JOIN [true, false] AS is_whole
GROUP BY organization_id, is_whole, age, app_id, link_id, campaign, platform, country, cohort, day, currency`;

const device = 'sipHash128(app_id, install_id)';
const at = 'toUnixTimestamp64Milli(time)';

/**
 * Events with their installs, and the age of each event. The events are the smaller side of the join, which is kept in
 * memory.
 */
const eventsOfInstalls = (
  condition: string,
  more = '',
) => `SELECT *, intDiv(greatest(e.at - installed, 0), ${dayMs}) AS full_age,
    toDate(intDiv(installed, ${dayMs}) + full_age) AS on_day
  FROM (
    SELECT organization_id, app_id, link_id, campaign, platform, country, ${device} AS device, ${at} AS installed
    FROM installs WHERE ${ofOrganization} AND toDate(time) <= toDate({to:UInt16}) AND ${isInstall} AND install_id != ''
  ) AS i
  INNER JOIN (
    SELECT ${device} AS device, ${at} AS at${more} FROM events
    WHERE ${ofOrganization} AND toDate(time) >= toDate({from:UInt16} - 1) AND toDate(time) <= toDate({to:UInt16} + 1)
      AND install_id != '' AND ${condition}
  ) AS e USING (device)
  WHERE e.at >= installed - ${dayMs} AND full_age <= ${ageMax} AND on_day >= toDate({from:UInt16}) AND on_day <= toDate({to:UInt16})`;

/** Each install and each age at which it has an event. */
const activeInstalls = `SELECT organization_id, toInt16(full_age) AS age, any(app_id) AS app_id, any(link_id) AS link_id, any(campaign) AS campaign,
  any(platform) AS platform, any(country) AS country, installed, any(on_day) AS day
FROM (${eventsOfInstalls('sign = 1')})
GROUP BY organization_id, device, installed, full_age`;

/** Every row counts with its sign: a late attribution subtracts an amount before it adds it again. */
const paidEvents = `SELECT organization_id, toInt16(full_age + ${ages.revenue}) AS age, app_id, link_id, campaign, platform, country, installed,
  on_day AS day, revenue_currency, amount
FROM (${eventsOfInstalls(
  "revenue_currency != ''",
  ', revenue_currency, ifNull(revenue_amount, toDecimal128(0, 9)) * sign AS amount',
)})`;

const installsOfDays = `SELECT organization_id, app_id, link_id, campaign, platform, country, ${at} AS installed, toDate(time) AS day
FROM installs WHERE ${ofOrganization} AND toDate(time) >= toDate({from:UInt16}) AND toDate(time) <= toDate({to:UInt16}) AND ${isInstall}`;

const noRevenue = 'toDecimal128(0, 9) AS revenue';
/** For each kind of cell: what its rows must be, which ages it has, and where it stores what the rollups reported. */
const kinds = {
  activity: {
    truth: cellsOf('age', `count() AS installs, ${noRevenue}`, activeInstalls),
    own: `age >= 0 AND age < ${ages.revenue}`,
    seen: ages.activitySeen,
  },
  revenue: {
    truth: cellsOf('age', 'toUInt64(0) AS installs, sum(amount) AS revenue', paidEvents, 'revenue_currency'),
    own: `age >= ${ages.revenue}`,
    seen: ages.revenueSeen,
  },
  installs: {
    truth: cellsOf(`toInt16(${ages.installed})`, `count() AS installs, ${noRevenue}`, installsOfDays),
    own: `age = ${ages.installed}`,
    seen: ages.installsSeen,
  },
} as const;

/** What the rollups reported before the cells were made, for the days from `from` to `to`. */
const seen = (age: number) =>
  `SELECT {organization_id:String} AS organization_id, true AS is_whole, toInt16(${age}) AS age, '' AS app_id, '' AS link_id, '' AS campaign,
  '' AS platform, '' AS country, toDateTime(0, 'UTC') AS cohort, toDate({from:UInt16} + one.2 - 1) AS day, '' AS currency, one.1 AS installs, ${noRevenue}
FROM (SELECT arrayJoin(arrayZip({seen:Array(Int64)}, arrayEnumerate({seen:Array(Int64)}))) AS one)`;

export interface Correction {
  readonly what: keyof typeof kinds;
  readonly organization_id: string;
  /** Days since 1970, inclusive, of one month. */
  readonly from: number;
  readonly to: number;
  /** For each of the days, what the rollups reported before. */
  readonly seen: readonly number[];
}

/**
 * The insert is one block, so that the cells and what they were made from are stored together. Equal corrections may be
 * necessary twice, so inserts are not deduplicated.
 */
const settings: Settings = {
  async_insert: 0,
  insert_deduplicate: 0,
  max_insert_threads: 1,
  max_threads: 1,
  max_insert_block_size: 100_000_000,
  min_insert_block_size_rows: 100_000_000,
  min_insert_block_size_bytes: 0,
  max_memory_usage: 3_000_000_000,
};

/** The statement that adds what the table lacks and subtracts what it has too much. */
export function correction({ what, ...params }: Correction): { sql: string; params: Params; settings: Settings } {
  const { truth, own, seen: seenAge } = kinds[what];
  const side = (sign: string, from: string) =>
    `SELECT ${keys}, currency, ${sign}toInt64(installs) AS n, ${sign}revenue AS amount FROM ${from}`;
  return {
    sql: `INSERT INTO active_installs (${keys}, currency, installs, revenue)
SELECT ${keys}, currency, sum(n) AS installs, sum(amount) AS revenue FROM (
${side('', `(${truth})`)} UNION ALL ${side('', `(${seen(seenAge)})`)}
UNION ALL ${side('-', `active_installs WHERE ${ofOrganization} AND ${ofDays} AND (${own} OR age = ${seenAge})`)}
) GROUP BY ${keys}, currency HAVING installs != 0 OR revenue != 0`,
    params,
    settings,
  };
}

/** Marks the days of events as changed: what their cells were made from no longer equals what is stored. */
export function recountDays(
  organizationId: string,
  days: readonly number[],
): { sql: string; params: Params; settings: Settings } {
  return {
    sql: `INSERT INTO active_installs (${keys}, installs)
SELECT {organization_id:String}, true, arrayJoin([${ages.activitySeen}, ${ages.revenueSeen}]), '', '', '', '', '', toDateTime(0, 'UTC'),
  toDate(arrayJoin({days:Array(UInt16)})), 1`,
    params: { organization_id: organizationId, days: [...days] },
    settings: { ...settings, max_partitions_per_insert_block: 0 },
  };
}

const seenOf = (age: number) => `sumIf(installs, age = ${age})`;
/**
 * Counts the records of each organization with many events by UTC day, and what the cells were made from. Rows:
 * DayCounts. A stamp changes with every batch that has events of the day. The number of events alone does not: a late
 * attribution gives an event another install and leaves the number as it was. A stamp is less than 2^33, so that a sum
 * of three is exact in JavaScript.
 */
export const countsByDay = `SELECT organization_id, toUInt16(day) AS day, sum(events) AS events, sum(paid) AS paid, sum(installs) AS installs,
  sum(events_stamp) AS events_stamp, sum(paid_stamp) AS paid_stamp,
  sum(activity_seen) AS activity_seen, sum(revenue_seen) AS revenue_seen, sum(installs_seen) AS installs_seen
FROM (
  SELECT organization_id, day, sum(n) AS events, sumIf(n, is_paid) AS paid, 0 AS installs,
    toInt64((sum(n) + sum(no)) % 4294967296) AS events_stamp, toInt64((sumIf(n, is_paid) + sumIf(no, is_paid)) % 4294967296) AS paid_stamp,
    0 AS activity_seen, 0 AS revenue_seen, 0 AS installs_seen
  FROM (
    SELECT organization_id, toDate(bucket) AS day, revenue_currency != '' AS is_paid, toInt64(sum(rows)) AS n, toInt64(max(batch_no)) AS no
    FROM events_by_dimension WHERE dimension = 'day' GROUP BY organization_id, app_id, day, revenue_currency, log_partition
  ) GROUP BY organization_id, day
  UNION ALL SELECT organization_id, toDate(bucket), 0, 0, toInt64(rows) - toInt64(opens), 0, 0, 0, 0, 0 FROM installs_by_dimension WHERE dimension = 'day'
  UNION ALL SELECT organization_id, day, 0, 0, 0, 0, 0, ${seenOf(ages.activitySeen)}, ${seenOf(ages.revenueSeen)}, ${seenOf(ages.installsSeen)}
  FROM active_installs WHERE is_whole AND age <= ${ages.installsSeen} GROUP BY organization_id, day
)
WHERE organization_id IN (SELECT organization_id FROM events_by_dimension WHERE dimension = 'day' GROUP BY organization_id HAVING sum(rows) >= {events_min:UInt64})
GROUP BY organization_id, day ORDER BY organization_id, day`;

export interface DayCounts {
  readonly organization_id: string;
  /** Days since 1970. */
  readonly day: number;
  readonly events: number;
  /** Events with revenue. */
  readonly paid: number;
  readonly installs: number;
  readonly events_stamp: number;
  readonly paid_stamp: number;
  readonly activity_seen: number;
  readonly revenue_seen: number;
  readonly installs_seen: number;
}
