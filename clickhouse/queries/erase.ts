/**
 * Blanks the rows of a person, or of all people of an organization: columns that identify a person become empty, and
 * nothing else changes. The rows of a person are selected by their place in the log, never by an id, because ClickHouse
 * stores the text of a mutation in a file.
 */
import { recountDays } from '#clickhouse/active-installs.ts';
import { type ClickHouse, identifier } from '#clickhouse/client.ts';

export interface PersonIds {
  readonly device: ReadonlySet<string>;
  readonly install: ReadonlySet<string>;
  readonly user: ReadonlySet<string>;
  readonly click: ReadonlySet<string>;
}

export interface ErasureScope {
  readonly organization_id: string;
  /** Empty for all apps of the organization. */
  readonly app_id: string;
}

const emptied = {
  clicks: ['click_id', 'ip', 'user_agent', 'os_version', 'device_model', 'language', 'query'],
  installs: 'install_id click_id device_id user_id match_id os_version device_model language ip properties'.split(' '),
  events: 'event_id install_id device_id user_id session_id click_id properties waiting_keys'.split(' '),
  matches: 'match_id device_id install_id click_id ip shadow_click_id detail'.split(' '),
  dead_letters: ['record'],
} as const;
export type ErasableTable = keyof typeof emptied;
export const erasableTables = Object.keys(emptied) as ErasableTable[];

interface Place {
  readonly partition: string;
  /** Frames of a producer are numbered per partition of the log and kind of record. */
  readonly log_partition: number;
  readonly kind: string;
  readonly producer_id: string;
  readonly frame_no: number;
  readonly idx: number;
}

/** Rows per mutation. */
const placesPerMutation = 1_000;
const sql = {
  scope: `organization_id = {organization_id:String} AND ({app_id:String} = '' OR app_id = {app_id:String})`,
  person:
    'has({device:Array(String)}, device_id) OR has({install:Array(String)}, install_id) OR has({user:Array(String)}, user_id)',
  asker: 'has({device:Array(String)}, device_id) OR has({install:Array(String)}, install_id)',
  // A row may have only another name of its device.
  waiting: 'hasAny({device:Array(String)}, arrayMap(key -> substring(key, 3), waiting_keys))',
};

function personIn(table: 'installs' | 'events'): string {
  return table === 'events' ? `${sql.person} OR ${sql.waiting}` : sql.person;
}

function paramsOf(scope: ErasureScope, ids: PersonIds): Record<string, unknown> {
  return {
    ...scope,
    device: [...ids.device],
    install: [...ids.install],
    user: [...ids.user],
    click: [...ids.click],
  };
}

/** Keeps these statements and their parameters out of the query log of the server. */
const silent = { log_queries: 0 } as const;

/** Ids in the same row as one of these: devices and installs of a user, clicks of an install. */
export async function idsBeside(
  client: ClickHouse,
  scope: ErasureScope,
  ids: PersonIds,
  idsMax: number,
): Promise<{ device: string[]; install: string[]; click: string[] }> {
  const of = (table: string, person: string) =>
    `SELECT DISTINCT device_id, install_id, click_id FROM ${table} WHERE ${sql.scope} AND (${person}) LIMIT {idsMax:UInt32}`;
  const rows = await client.query<{ device_id: string; install_id: string; click_id: string }>(
    `SELECT * FROM (${of('installs', sql.person)}) UNION ALL SELECT * FROM (${of('events', personIn('events'))})
     UNION ALL SELECT * FROM (${of('matches', sql.asker)})`,
    { ...paramsOf(scope, ids), idsMax },
    silent,
  );
  const texts = (name: 'device_id' | 'install_id' | 'click_id') =>
    [...new Set(rows.map((row) => row[name]))].filter((id) => id !== '');
  return { device: texts('device_id'), install: texts('install_id'), click: texts('click_id') };
}

/** The rows of a person. Other clicks of the same visitor come first, because only the named clicks lead to them. */
async function* placesOf(
  client: ClickHouse,
  scope: ErasureScope,
  ids: PersonIds,
): AsyncGenerator<[ErasableTable, Place[]]> {
  const find = (from: ErasableTable, where: string, more: Record<string, unknown> = {}) =>
    client.query<Place>(
      `SELECT _partition_id AS partition, ${placeIn(from)} FROM ${from} WHERE ${where}`,
      { ...paramsOf(scope, ids), ...more },
      silent,
    );
  // By Signpost's own definition, the same visitor on the same day is the same person.
  const visitor = '(app_id, toDate(time), visitor)';
  const own = `SELECT app_id, toDate(time), visitor FROM clicks WHERE ${sql.scope} AND has({click:Array(String)}, click_id)`;
  const isNamed = 'has({click:Array(String)}, click_id)';
  yield [
    'clicks',
    await find('clicks', `${sql.scope} AND click_id != '' AND ${visitor} IN (${own}) AND NOT ${isNamed}`),
  ];
  yield ['clicks', await find('clicks', `${sql.scope} AND ${isNamed}`)];
  // A match mentions every click that it compared, including clicks of other devices.
  const looked = `${isNamed} OR has({click:Array(String)}, shadow_click_id) OR arrayExists(one -> position(detail, one) > 0, {click:Array(String)})`;
  yield ['matches', await find('matches', `${sql.scope} AND (${sql.asker} OR ${looked})`)];
  yield ['dead_letters', await find('dead_letters', `record != '' AND (${deadLetter})`, { texts: textsOf(ids) })];
  for (const table of ['events', 'installs'] as const)
    yield [table, await find(table, `${sql.scope} AND (${personIn(table)})`)];
}

/**
 * A rejected record contains its organization, unless it is malformed. In that case, only a long id can be assumed to
 * be unique.
 */
const longIdChars = 16;
const deadLetter = `
  (position(record, {organization_id:String}) > 0 AND arrayExists(text -> position(record, text) > 0, {texts:Array(String)}))
  OR arrayExists(text -> length(text) >= ${longIdChars} AND position(record, text) > 0, {texts:Array(String)})`;

/** Ids as they appear in JSON. */
function textsOf(ids: PersonIds): string[] {
  const all = [...ids.device, ...ids.install, ...ids.user, ...ids.click];
  return all.flatMap((id) => {
    const json = JSON.stringify(id);
    const ascii = json.replaceAll(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const quoted = [...new Set([json, ascii])];
    return id.length >= longIdChars ? quoted.map((text) => text.slice(1, -1)) : quoted;
  });
}

/**
 * Stores the UTC days (since 1970) with cells that the erasure changes, before the first row is blanked: afterwards
 * they cannot be found any more. @returns all days to count again, including those of earlier runs that were killed.
 */
export type NoteDays = (days: readonly number[]) => Promise<readonly number[]>;

/** @returns how many rows of each table were blanked. @throws ClickHouseFailure */
export async function erasePerson(
  client: ClickHouse,
  scope: ErasureScope,
  ids: PersonIds,
  noteDays: NoteDays,
): Promise<Record<ErasableTable, number>> {
  const counts = { clicks: 0, installs: 0, events: 0, matches: 0, dead_letters: 0 };
  const days = await noteDays(await activeDays(client, scope, ids));
  for await (const [table, places] of placesOf(client, scope, ids)) {
    counts[table] += places.length;
    for (const partition of new Set(places.map((place) => place.partition))) {
      const some = places.filter((place) => place.partition === partition);
      for (let from = 0; from < some.length; from += placesPerMutation) {
        const listed = some
          .slice(from, from + placesPerMutation)
          .map(placeSql)
          .join();
        await blank(
          client,
          table,
          `IN PARTITION ID '${partition.replaceAll(/\W/g, '')}'`,
          `(${placeIn(table)}) IN (${listed})`,
        );
      }
    }
  }
  await recount(client, scope.organization_id, days);
  return counts;
}

/** The UTC days (since 1970) on which the person was active, and the days next to them. */
async function activeDays(client: ClickHouse, scope: ErasureScope, ids: PersonIds): Promise<number[]> {
  const rows = await client.query<{ day: number }>(
    `SELECT DISTINCT arrayJoin([-1, 0, 1]) + toInt32(toDate(time)) AS day FROM events WHERE ${sql.scope} AND (${personIn('events')})`,
    paramsOf(scope, ids),
    silent,
  );
  return rows.map(({ day }) => day);
}

/** The parameters of a statement are in its URL. */
const daysPerStatement = 300;

/** Marks days to be counted again, because blanked rows change no count. */
async function recount(client: ClickHouse, organizationId: string, days: readonly number[]): Promise<void> {
  for (let from = 0; from < days.length; from += daysPerStatement) {
    const { sql, params, settings } = recountDays(organizationId, days.slice(from, from + daysPerStatement));
    await client.command(sql, params, { ...settings, ...silent });
  }
}

/** Only dead letters are of several kinds; in the other tables the kind has no column. */
function placeIn(table: ErasableTable): string {
  return `log_partition, ${table === 'dead_letters' ? '' : "'' AS "}kind, producer_id, frame_no, idx`;
}

function placeSql({ log_partition, kind, producer_id, frame_no, idx }: Place): string {
  const [of, by] = [kind, producer_id].map((text) => `'${text.replaceAll(/[^\w-]/g, '')}'`);
  return `(${Number(log_partition)},${of},${by},${Number(frame_no)},${Number(idx)})`;
}

/** @returns how many rows of each table were blanked. @throws ClickHouseFailure */
export async function eraseOrganization(
  client: ClickHouse,
  organizationId: string,
  noteDays: NoteDays,
): Promise<Record<ErasableTable, number>> {
  const counts = { clicks: 0, installs: 0, events: 0, matches: 0, dead_letters: 0 };
  const days = await noteDays(await allDays(client, organizationId));
  for (const table of erasableTables) {
    const column = emptied[table][0] ?? '';
    const isOf =
      table === 'dead_letters'
        ? 'position(record, {organization_id:String}) > 0'
        : `organization_id = {organization_id:String} AND ${identifier(column)} != ''`;
    const [found] = await client.query<{ rows: number }>(
      `SELECT count() AS rows FROM ${table} WHERE ${isOf}`,
      { organization_id: organizationId },
      silent,
    );
    counts[table] = Number(found?.rows ?? 0);
    if (counts[table] > 0) await blank(client, table, '', isOf, { organization_id: organizationId });
  }
  await recount(client, organizationId, days);
  return counts;
}

async function allDays(client: ClickHouse, organizationId: string): Promise<number[]> {
  const rows = await client.query<{ day: number }>(
    `SELECT DISTINCT arrayJoin([-1, 0, 1]) + toInt32(toDate(bucket)) AS day FROM events_by_dimension
      WHERE organization_id = {organization_id:String} AND dimension = 'day'`,
    { organization_id: organizationId },
  );
  return rows.map(({ day }) => day);
}

/** Returns once every part has been rewritten; the old ones leave the disk after `old_parts_lifetime`. */
async function blank(
  client: ClickHouse,
  table: ErasableTable,
  partition: string,
  where: string,
  params: Record<string, unknown> = {},
): Promise<void> {
  const empty = (column: string) => (column === 'waiting_keys' ? '[]' : "''");
  const changes = emptied[table].map((column) => `${identifier(column)} = ${empty(column)}`).join(', ');
  await client.command(`ALTER TABLE ${identifier(table)} UPDATE ${changes} ${partition} WHERE ${where}`, params, {
    ...silent,
    mutations_sync: '2',
  });
}
