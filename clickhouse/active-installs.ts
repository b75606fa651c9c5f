/**
 * The table `active_installs`: how many installs were active at each age. Nothing is added to it on insert. The records say what
 * its rows must be, and `correction` adds the difference, so a second correction changes nothing, and any error is gone after
 * the next one.
 *
 * A cell belongs to the UTC day on which its installs reach its age. It depends on events of that day and of the days next to
 * it, and on installs that are not later than that day. How many of both there were is stored with the cells, in the same insert:
 * while these numbers are those of the rollups, the cells of the day are right.
 */
import type { Params, Settings } from './client.ts';
import { isInstall } from './rollups.ts';

const dayMs = 86_400_000;
/** As long as the API asks about. */
const ageMax = 730;
export const cohortMs = 15 * 60_000;

/** Meanings of `age` below 0. */
export const ages = {
  /** The installs of the cohort. */
  installed: -1,
  /** Of a day, not of a cohort: the number of events on it and on the days next to it, which its cells were made of. */
  eventsSeen: -2,
  /** Of a day: the number of its installs, which its cells and those of all later days were made of. */
  installsSeen: -3,
} as const;

/** Columns of the table by which it can be filtered. */
export const cellColumns = ['app_id', 'link_id', 'campaign', 'platform', 'country'] as const;

const columns = ['organization_id', 'is_whole', 'age', ...cellColumns, 'cohort', 'day', 'installs'];
const ofOrganization = 'organization_id = {organization_id:String}';
const ofDays = 'day >= toDate({from:UInt16}) AND day <= toDate({to:UInt16})';

/** The cells of installs at `installed` (epoch ms), with the installs of all links, and of each. */
const cellsOf = (age: string, from: string) =>
  `SELECT organization_id, is_whole, ${age} AS age, app_id,
  if(is_whole, '', link_id) AS link_id, if(is_whole, '', campaign) AS campaign, if(is_whole, '', platform) AS platform,
  if(is_whole, '', country) AS country, toDateTime(intDiv(installed, ${cohortMs}) * ${cohortMs / 1000}, 'UTC') AS cohort, day,
  count() AS installs FROM (${from}) ARRAY JOIN [true, false] AS is_whole
GROUP BY organization_id, is_whole, age, app_id, link_id, campaign, platform, country, cohort, day`;

const device = 'sipHash128(app_id, install_id)';
const at = 'toUnixTimestamp64Milli(time)';

/** Each install and each age at which it has an event. The events are the smaller side, which is kept in memory. */
const activeInstalls = `SELECT organization_id, toInt16(full_age) AS age, any(app_id) AS app_id, any(link_id) AS link_id, any(campaign) AS campaign,
  any(platform) AS platform, any(country) AS country, installed, any(on_day) AS day
FROM (
  SELECT organization_id, app_id, link_id, campaign, platform, country, device, installed,
    intDiv(greatest(e.at - installed, 0), ${dayMs}) AS full_age, toDate(intDiv(installed, ${dayMs}) + full_age) AS on_day
  FROM (
    SELECT organization_id, app_id, link_id, campaign, platform, country, ${device} AS device, ${at} AS installed
    FROM installs WHERE ${ofOrganization} AND toDate(time) <= toDate({to:UInt16}) AND ${isInstall} AND install_id != ''
  ) AS i
  INNER JOIN (
    SELECT ${device} AS device, ${at} AS at FROM events
    WHERE ${ofOrganization} AND toDate(time) >= toDate({from:UInt16} - 1) AND toDate(time) <= toDate({to:UInt16} + 1)
      AND install_id != '' AND sign = 1
  ) AS e USING (device)
  WHERE e.at >= installed - ${dayMs} AND full_age <= ${ageMax} AND on_day >= toDate({from:UInt16}) AND on_day <= toDate({to:UInt16})
)
GROUP BY organization_id, device, installed, full_age`;

const installsOfDays = `SELECT organization_id, app_id, link_id, campaign, platform, country, ${at} AS installed, toDate(time) AS day
FROM installs WHERE ${ofOrganization} AND toDate(time) >= toDate({from:UInt16}) AND toDate(time) <= toDate({to:UInt16}) AND ${isInstall}`;

/** What was counted before the cells were made, for days from `from` to `to`. */
const seen = (age: number) =>
  `SELECT {organization_id:String} AS organization_id, true AS is_whole, toInt16(${age}) AS age, '' AS app_id, '' AS link_id, '' AS campaign,
  '' AS platform, '' AS country, toDateTime(0, 'UTC') AS cohort, toDate({from:UInt16} + one.2 - 1) AS day, one.1 AS installs
FROM (SELECT arrayJoin(arrayZip({seen:Array(Int64)}, arrayEnumerate({seen:Array(Int64)}))) AS one)`;

export interface Correction {
  /** Active installs of days, or the installs themselves. */
  readonly what: 'activity' | 'installs';
  readonly organization_id: string;
  /** Days since 1970, inclusive, of one month. */
  readonly from: number;
  readonly to: number;
  /** For each of the days: the records that were counted before. */
  readonly seen: readonly number[];
}

/** One block, so that the cells and what they were made of are stored together. Equal corrections may be necessary twice. */
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

/** The statement that adds what the table lacks, and takes away what is too much. */
export function correction({ what, ...params }: Correction): { sql: string; params: Params; settings: Settings } {
  const isActivity = what === 'activity';
  const seenAge = isActivity ? ages.eventsSeen : ages.installsSeen;
  const truth = isActivity ? cellsOf('age', activeInstalls) : cellsOf(`toInt16(${ages.installed})`, installsOfDays);
  const ofAges = isActivity ? `(age >= 0 OR age = ${seenAge})` : `age IN (${ages.installed}, ${seenAge})`;
  const keys = columns.slice(0, -1).join(', ');
  const side = (sign: string, from: string) => `SELECT ${keys}, ${sign}toInt64(installs) AS n FROM ${from}`;
  return {
    sql: `INSERT INTO active_installs (${columns.join(', ')})
SELECT ${keys}, sum(n) AS installs FROM (
${side('', `(${truth})`)} UNION ALL ${side('', `(${seen(seenAge)})`)}
UNION ALL ${side('-', `active_installs WHERE ${ofOrganization} AND ${ofDays} AND ${ofAges}`)}
) GROUP BY ${keys} HAVING installs != 0`,
    params,
    settings,
  };
}

/** Makes the days of events count as changed: what their cells were made of is no longer what is stored. */
export function recountDays(
  organizationId: string,
  days: readonly number[],
): { sql: string; params: Params; settings: Settings } {
  return {
    sql: `INSERT INTO active_installs (${columns.join(', ')})
SELECT {organization_id:String}, true, ${ages.eventsSeen}, '', '', '', '', '', toDateTime(0, 'UTC'), toDate(arrayJoin({days:Array(UInt16)})), 1`,
    params: { organization_id: organizationId, days: [...days] },
    settings: { ...settings, max_partitions_per_insert_block: 0 },
  };
}

/** Records of each organization with many events, by UTC day, and what the cells were made of. Rows: DayCounts. */
export const countsByDay = `SELECT organization_id, toUInt16(day) AS day, sum(events) AS events, sum(installs) AS installs,
  sum(events_seen) AS events_seen, sum(installs_seen) AS installs_seen
FROM (
  SELECT organization_id, toDate(bucket) AS day, toInt64(rows) AS events, 0 AS installs, 0 AS events_seen, 0 AS installs_seen
  FROM events_by_dimension WHERE dimension = 'day'
  UNION ALL SELECT organization_id, toDate(bucket), 0, toInt64(rows) - toInt64(opens), 0, 0 FROM installs_by_dimension WHERE dimension = 'day'
  UNION ALL SELECT organization_id, day, 0, 0, if(age = ${ages.eventsSeen}, installs, 0), if(age = ${ages.installsSeen}, installs, 0)
  FROM active_installs WHERE is_whole AND age <= ${ages.eventsSeen}
)
WHERE organization_id IN (SELECT organization_id FROM events_by_dimension WHERE dimension = 'day' GROUP BY organization_id HAVING sum(rows) >= {events_min:UInt64})
GROUP BY organization_id, day ORDER BY organization_id, day`;

export interface DayCounts {
  readonly organization_id: string;
  /** Since 1970. */
  readonly day: number;
  readonly events: number;
  readonly installs: number;
  readonly events_seen: number;
  readonly installs_seen: number;
}
