/** Finds all ids of a person: follows the ids stored with the given ones, in every store, until no new ones appear. */
import type { ClickHouse } from '#clickhouse/client.ts';
import { type ErasureScope, idsBeside, type PersonIds } from '#clickhouse/queries/erase.ts';
import { type ErasableKind, erasableKinds } from '#common/erased-ids.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { AdminError } from './questions.ts';

/**
 * More devices, installs or clicks than one person can have: such an id is shared, for example a placeholder device id.
 */
const idsMax = 300;
const roundsMax = 10;

export type Person = { readonly [Kind in ErasableKind]: Set<string> };

export interface PersonStores {
  readonly db: Queries;
  readonly redis: Pick<Redis, 'commands'>;
  readonly clickhouse: ClickHouse;
  readonly appIds: readonly string[];
}

export function personOf(ids: Partial<Record<ErasableKind, readonly string[]>>): Person {
  const of = (kind: ErasableKind) => new Set(ids[kind] ?? []);
  return { device: of('device'), install: of('install'), user: of('user'), click: of('click') };
}

/** @throws AdminError when the ids lead to more than one person can have. */
export async function completePerson(given: Person, scope: ErasureScope, stores: PersonStores): Promise<Person> {
  const person: Person = personOf(Object.fromEntries(erasableKinds.map((kind) => [kind, [...given[kind]]])));
  for (let round = 0, before = -1; round < roundsMax && before < countOf(person); round++) {
    before = countOf(person);
    for (const found of await Promise.all([
      idsBeside(stores.clickhouse, scope, person as PersonIds, idsMax + 1),
      idsInPostgres(stores, person),
      idsOfClaims(stores, person),
      idsInRedis(stores, person),
    ])) {
      for (const kind of ['device', 'install', 'click'] as const) for (const id of found[kind]) person[kind].add(id);
    }
    if (countOf(person) - countOf(given) > idsMax) {
      throw new AdminError(
        `these ids are linked to more than ${idsMax} others, so they probably belong to several people: erase the devices one at a time`,
      );
    }
  }
  return person;
}

function countOf(person: Person): number {
  return erasableKinds.reduce((sum, kind) => sum + person[kind].size, 0);
}

interface Found {
  readonly device: readonly string[];
  readonly install: readonly string[];
  readonly click: readonly string[];
}

export function installNames(person: Person): string[] {
  return [...[...person.device].map((id) => `d:${id}`), ...[...person.install].map((id) => `i:${id}`)];
}

async function idsInPostgres({ db, appIds }: PersonStores, person: Person): Promise<Found> {
  const rows = await db.query<{ install_id: string; click_id: string | null; name: string | null }>(
    `SELECT a.install_id, a.click_id, other.name
       FROM install_names n JOIN install_answers a ON a.app_id = n.app_id AND a.install_id = n.install_id
       LEFT JOIN install_names other ON other.app_id = a.app_id AND other.install_id = a.install_id
      WHERE n.app_id = ANY ($1) AND n.name = ANY ($2) LIMIT $3`,
    [appIds, installNames(person), 2 * idsMax + 2],
  );
  const names = rows.flatMap(({ name }) => (name?.startsWith('d:') && name.length > 2 ? [name.slice(2)] : []));
  return {
    device: names,
    install: rows.map(({ install_id }) => install_id),
    click: rows.flatMap(({ click_id }) => (click_id === null ? [] : [click_id])),
  };
}

/** Clicks that the devices claimed, and the devices that claimed the clicks. */
async function idsOfClaims({ db, appIds }: PersonStores, { device, install, click }: Person): Promise<Found> {
  const rows = await db.query<{ click_id: string; device: string }>(
    'SELECT click_id, device FROM claims WHERE app_id = ANY ($1) AND (device = ANY ($2) OR click_id = ANY ($3)) LIMIT $4',
    [appIds, [...device, ...install], [...click], idsMax + 1],
  );
  const holders = rows.flatMap((row) => (row.device === '' || install.has(row.device) ? [] : [row.device]));
  return { device: holders, install: [], click: rows.map((row) => row.click_id) };
}

/** Clicks that a device was matched with, whether or not it was ever installed. */
async function idsInRedis({ redis, appIds }: PersonStores, person: Person): Promise<Found> {
  const answers = matchKeys(appIds, person);
  const found = answers.length === 0 ? [] : await redis.commands.mget(answers);
  const click = found.flatMap((json) => {
    const { click_id } = json === null ? {} : (JSON.parse(json) as { click_id?: string });
    return click_id ? [click_id] : [];
  });
  return { device: [], install: [], click };
}

/** Stored answers to devices; an install without a device is stored under its own id. */
export function matchKeys(appIds: readonly string[], { device, install }: Person): string[] {
  return appIds.flatMap((app) => [...device, ...install].map((id) => `match:${app}:${id}`));
}
