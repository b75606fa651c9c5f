/**
 * The rollups, and how each is derived from its raw table. Repairs and audits use this list; the views in the
 * migrations define the same, and a test checks that both agree.
 *
 * - `<kind>_by_link`: one row per link, campaign and UTC day.
 * - `<kind>_by_dimension`: the totals of an app by quarter of an hour (dimension `quarter`, so that the days of every
 *   time zone add up), by UTC day (`day`), and by day and value of `platform`, `country` and `campaign`.
 *
 * `rows` counts raw rows, those of events by their `sign`. Per partition, its sum is `rowsPerRecord` times the count of
 * the raw partition. A cell belongs to one partition of the log, and `batch_no` is the number of the newest batch in
 * it.
 */
import type { RecordKind } from '#common/log/record.ts';

/** The condition for rows of `installs` that are installs; the others are openings of an installed app by a link. */
export const isInstall = "trigger NOT IN ('reengagement', 'deep_link')";

export type Kind = 'clicks' | 'installs' | 'events';
export const kinds = ['clicks', 'installs', 'events'] as const satisfies readonly Kind[];
/** Tables of records: those with rollups, and those without. */
export type RawKind = Kind | 'matches';
export const rawKinds = [...kinds, 'matches'] as const satisfies readonly RawKind[];

const tables: Readonly<Record<RecordKind, RawKind>> = {
  click: 'clicks',
  install: 'installs',
  event: 'events',
  match: 'matches',
};

/** The table of each kind of record. */
export function tableOf(kind: RecordKind): RawKind {
  return tables[kind];
}

export interface Rollup {
  readonly table: string;
  readonly raw: Kind;
  readonly rowsPerRecord: number;
  /** The SELECT that fills it from raw rows; `where` is a condition on them. */
  readonly select: (where: string) => string;
}

/** Columns of a rollup by which figures can be filtered, named as its dimensions. */
export const dayDimensions = ['platform', 'country', 'campaign'] as const;

const measures: Record<Kind, { readonly key: string; readonly sums: string }> = {
  clicks: { key: 'is_bot', sums: 'count() AS rows, uniqCombinedState(15)(visitor) AS visitors' },
  installs: {
    key: 'attributed',
    sums: "count() AS rows, countIf(trigger = 'reinstall') AS reinstalls, countIf(trigger IN ('reengagement', 'deep_link')) AS opens, countIf(trigger = 'reengagement') AS reengagements",
  },
  events: {
    key: 'revenue_currency',
    // Later attribution reverses a row with sign -1, which wraps around.
    sums: 'toUInt64(sum(sign)) AS rows, toUInt64(sumIf(sign, is_conversion)) AS conversions, sum(ifNull(revenue_amount, 0) * sign) AS revenue',
  },
};

const cells = `[
  ('quarter', '', toStartOfFifteenMinutes(toDateTime(time, 'UTC'))),
  ('day', '', toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('platform', platform, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('country', country, toDateTime(toStartOfDay(time, 'UTC'), 'UTC')),
  ('campaign', campaign, toDateTime(toStartOfDay(time, 'UTC'), 'UTC'))]`;

function byLink(kind: Kind): Rollup {
  const { key, sums } = measures[kind];
  const own = `${key}, log_partition`;
  return {
    table: `${kind}_by_link`,
    raw: kind,
    rowsPerRecord: 1,
    select: (where) =>
      `SELECT organization_id, app_id, link_id, campaign, ${own}, toDateTime(toStartOfDay(time, 'UTC'), 'UTC') AS bucket, ${sums}, max(batch_no) AS batch_no
FROM (SELECT * FROM ${kind} WHERE ${where})
GROUP BY organization_id, app_id, link_id, campaign, ${own}, bucket`,
  };
}

function byDimension(kind: Kind): Rollup {
  const { key, sums } = measures[kind];
  const own = `${key}, log_partition`;
  return {
    table: `${kind}_by_dimension`,
    raw: kind,
    rowsPerRecord: 5,
    select: (where) =>
      `SELECT organization_id, app_id, cell.1 AS dimension, cell.2 AS value, ${own}, cell.3 AS bucket, ${sums}, max(batch_no) AS batch_no
FROM (SELECT * FROM ${kind} WHERE ${where}) ARRAY JOIN ${cells} AS cell
GROUP BY organization_id, app_id, dimension, value, ${own}, bucket`,
  };
}

export const rollups: readonly Rollup[] = kinds.flatMap((kind) => [byLink(kind), byDimension(kind)]);

/** The columns of a rollup, in the order of its SELECT. */
export function columnsOf({ raw, table }: Rollup): string[] {
  const place = table.endsWith('_by_link') ? ['link_id', 'campaign'] : ['dimension', 'value'];
  const sums = {
    clicks: ['rows', 'visitors'],
    installs: ['rows', 'reinstalls', 'opens', 'reengagements'],
    events: ['rows', 'conversions', 'revenue'],
  }[raw];
  return ['organization_id', 'app_id', ...place, measures[raw].key, 'log_partition', 'bucket', ...sums, 'batch_no'];
}
