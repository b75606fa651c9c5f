/**
 * `npm run admin -- erase`: a person, or all people of an organization, from every store.
 *
 * Order: add the ids to the list that ingest applies, so that records in flight are stored without personal data; wait
 * until ingest has stored what was received before; erase in Redis and Postgres; blank the rows in ClickHouse, which
 * keep their positions, links and amounts; purge the log. Throughout, Postgres holds what the next run needs to
 * complete the erasure after a crash.
 */
import { randomBytes } from 'node:crypto';
import { type Command, InvalidArgumentError } from 'commander';
import type { ClickHouse } from '#clickhouse/client.ts';
import { type ErasableTable, type ErasureScope, eraseOrganization, erasePerson } from '#clickhouse/queries/erase.ts';
import type { Clock } from '#common/clock.ts';
import { erasableKinds, erasedIdHash, erasureDays } from '#common/erased-ids.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { sleep, systemTime } from '#common/time.ts';
import { findOrganization } from './accounts.ts';
import { completePerson, type Person, personOf } from './erase-person.ts';
import { emptyLog, eraseInPostgres, eraseInRedis, scrubPostgres } from './erase-stores.ts';
import { AdminError } from './questions.ts';
import { BegunErasure, type UnfinishedErasure, unfinishedErasuresOf } from './unfinished-erasures.ts';

export interface EraseStores {
  readonly db: Queries;
  readonly clickhouse: ClickHouse;
  readonly redis: Pick<Redis, 'commands' | 'script'>;
  readonly nats: NatsClient;
  readonly clock: Clock;
}

export interface EraseContext {
  /** Opened on first use. @throws AdminError when one of them is not configured. */
  readonly stores: () => Promise<EraseStores>;
  readonly print: (line: string) => void;
}

export interface EraseRequest {
  /** Id or name. */
  readonly organization: string;
  readonly app?: string;
  readonly device: readonly string[];
  readonly install: readonly string[];
  readonly user: readonly string[];
  readonly isEverybody: boolean;
  readonly waitMs: number;
}

/** Ingest rereads the list more often than this. */
const listedMs = 12_000;
const pollMs = 500;

function ids(text: string, before: readonly string[] = []): string[] {
  // An empty shell variable must not widen or change the request.
  if (text.trim() === '') throw new InvalidArgumentError('must not be empty.');
  return [...before, text];
}

interface EraseOptions {
  readonly organization?: string;
  readonly app?: string;
  readonly device?: string[];
  readonly install?: string[];
  readonly user?: string[];
  readonly everybody?: boolean;
  readonly unfinished?: boolean;
  readonly wait: string;
}

export function addEraseCommand(program: Command, context: EraseContext): void {
  program
    .command('erase')
    .description(
      'Remove a person, identified by a device, install or user id, from every store. Aggregates are kept. With ' +
        "--everybody, remove all people in the organization's apps. See docs/data-protection.md for what is removed, and when.",
    )
    .option('--organization <name>', "name or id of the organization whose apps hold the person's data")
    .option('--app <id>', 'only in this app')
    .option('--device <id>', 'a device_id that an app sent; repeatable', ids)
    .option('--install <id>', 'an install_id; repeatable', ids)
    .option('--user <id>', 'a user_id that an app sent (not a Signpost user); repeatable', ids)
    .option('--everybody', 'erase all people in all apps of the organization, instead of one person')
    .option('--unfinished', 'complete the erasures that were interrupted, of all organizations')
    .option('--wait <seconds>', 'maximum seconds to wait for ingest to store the records received so far', '300')
    .action(async (options: EraseOptions) => {
      const request = options.unfinished ? unfinishedOf(options) : requestOf(options);
      const stores = await context.stores();
      const lines = request ? await erase(stores, request) : await eraseUnfinished(stores, waitOf(options));
      for (const line of lines) context.print(line);
    });
}

/** @throws AdminError when options name a person, who would not be erased. */
export function unfinishedOf({ unfinished: _, wait: __, ...others }: EraseOptions): null {
  if (Object.keys(others).length > 0) throw new AdminError('--unfinished can be combined only with --wait');
  return null;
}

function waitOf({ wait }: EraseOptions): number {
  const waitMs = Number(wait) * 1_000;
  if (!Number.isFinite(waitMs) || waitMs < 0) throw new AdminError('--wait must be a number of seconds');
  return waitMs;
}

/** @throws AdminError */
export function requestOf(options: EraseOptions): EraseRequest {
  const { organization = '', app, device = [], install = [], user = [], everybody = false } = options;
  const waitMs = waitOf(options);
  if (organization.trim() === '') throw new AdminError('--organization is missing');
  const isPerson = device.length + install.length + user.length > 0;
  if (isPerson === everybody) {
    throw new AdminError('give --device, --install or --user for a person, or --everybody for all people');
  }
  if (everybody && app !== undefined)
    throw new AdminError('--everybody covers all apps of the organization: leave out --app');
  return { organization, ...(app === undefined ? {} : { app }), device, install, user, isEverybody: everybody, waitMs };
}

/** @returns the report, line by line. @throws AdminError when the erasure is not complete. */
export async function erase(stores: EraseStores, request: EraseRequest): Promise<string[]> {
  const organization_id = await organizationIdOf(stores.db, request.organization);
  const appIds = await appsOf(stores.db, organization_id, request.app);
  const scope = { organization_id, app_id: request.app ?? '' };
  const given = request.isEverybody ? null : personOf(request);
  return [
    ...(await eraseWithin(stores, { scope, appIds, given, waitMs: request.waitMs })),
    ...(await othersOf(stores)),
  ];
}

/**
 * Completes the erasures that were interrupted, oldest first; one that fails does not keep the others from being
 * completed. @throws AdminError when one of them is not complete.
 */
export async function eraseUnfinished(stores: EraseStores, waitMs: number): Promise<string[]> {
  const { db } = stores;
  const lines: string[] = [];
  const failures: string[] = [];
  for (const listed of await unfinishedErasuresOf(db)) {
    // An erasure also completes earlier ones of the same person.
    const one = (await unfinishedErasuresOf(db)).find(({ id }) => id === listed.id);
    if (one === undefined) continue;
    const { organization_id, app_id, ids } = one;
    try {
      const appIds = await appsOf(db, organization_id, app_id === '' ? undefined : app_id);
      const given = ids && personOf(ids);
      lines.push(sentenceOf(one));
      lines.push(...(await eraseWithin(stores, { scope: { organization_id, app_id }, appIds, given, waitMs })));
    } catch (error) {
      if (!(error instanceof AdminError)) throw error;
      failures.push(`${sentenceOf(one)}: ${error.message}`);
    }
  }
  if (failures.length > 0) throw new AdminError([...lines, ...failures].join('\n'));
  return lines.length > 0 ? lines : ['No erasure was interrupted'];
}

function sentenceOf({ organization_id, app_id, ids, begun_at }: UnfinishedErasure): string {
  const who = ids === null ? 'all people' : 'a person';
  return `The erasure of ${who} of ${app_id || organization_id} that began at ${begun_at.toISOString()} is not finished`;
}

/** Erasures that were interrupted or are running now. */
async function othersOf({ db }: EraseStores): Promise<string[]> {
  return (await unfinishedErasuresOf(db)).map(
    (one) => `${sentenceOf(one)}. If it is no longer running, complete it: npm run admin -- erase --unfinished`,
  );
}

interface Erasure {
  readonly scope: ErasureScope;
  readonly appIds: readonly string[];
  /** Null for all people. */
  readonly given: Person | null;
  readonly waitMs: number;
}

async function eraseWithin(stores: EraseStores, { scope, appIds, given, waitMs }: Erasure): Promise<string[]> {
  const { db, redis, clickhouse, nats, clock } = stores;
  const { organization_id } = scope;
  const complete = (known: Person | null) => known && completePerson(known, scope, { db, redis, clickhouse, appIds });
  const begun = new BegunErasure(db, scope);
  const list = new ErasureList(db, organization_id);
  const known = await complete(given);
  await begun.begin(known);
  const untilMs = clock();
  await list.add(known, untilMs);
  const isCaughtUp = await ingestReaches(stores, untilMs + listedMs, waitMs);
  const person = await complete(known);
  await begun.note(person);
  await list.extend(person);
  const keys = await eraseInRedis(redis, appIds, person);
  const installs = await eraseInPostgres(db, appIds, person);
  const noteDays = (days: readonly number[]) => begun.noteDays(days);
  const rows = person
    ? await erasePerson(clickhouse, scope, person, noteDays)
    : await eraseOrganization(clickhouse, organization_id, noteDays);
  if (!isCaughtUp) {
    await scrubPostgres(db);
    throw new AdminError(
      `${lineOf(rows)}; ingest has not yet stored all records received before this command. It will store the remaining ones without personal data. ` +
        'Run the same command again once ingest has caught up, to erase what it stored in the meantime and to purge the log',
    );
  }
  await emptyLog(nats);
  await begun.forget();
  const left = await scrubPostgres(db);
  await begun.finish();
  return [
    lineOf(rows),
    `Removed ${installs} installs from Postgres and ${keys} keys from Redis`,
    'Purged the log, including all other records: a replay cannot go back before this moment',
    'ClickHouse deletes the old files within 15 minutes; existing backups still contain the data',
    ...left,
  ];
}

function lineOf(rows: Record<ErasableTable, number>): string {
  return `blanked ${rows.clicks} clicks, ${rows.installs} installs, ${rows.events} events, ${rows.matches} matches, ${rows.dead_letters} refused records`;
}

async function organizationIdOf(db: Queries, organization: string): Promise<string> {
  const found = await findOrganization(db, organization);
  if (found === null) {
    // A deleted organization can be given by id only: its records, and the people in them, still exist.
    const [deleted] = await db.query<{ id: string }>('SELECT id FROM organizations WHERE id = $1', [
      organization.trim(),
    ]);
    if (deleted) return deleted.id;
    throw new AdminError(`there is no organization ${organization}`);
  }
  if (found.kind === 'refused') throw new AdminError(found.message);
  return found.id;
}

/** Includes deleted apps: their records still exist. */
async function appsOf(db: Queries, organizationId: string, app: string | undefined): Promise<string[]> {
  const rows = await db.query<{ id: string }>('SELECT id FROM apps WHERE organization_id = $1', [organizationId]);
  const all = rows.map(({ id }) => id);
  if (app === undefined) return all;
  if (!all.includes(app)) throw new AdminError(`the organization has no app ${app}`);
  return [app];
}

/** @returns false when ingest has not stored everything up to `toMs` (epoch ms) within `waitMs`. */
async function ingestReaches({ db, clock }: EraseStores, toMs: number, waitMs: number): Promise<boolean> {
  const endMs = performance.now() + waitMs;
  for (;;) {
    const [row] = await db.query<{ as_of: number | null }>('SELECT min(committed_to) AS as_of FROM ingest.progress');
    const asOf = row?.as_of ?? clock();
    if (asOf >= toMs) return true;
    if (performance.now() >= endMs) return false;
    await sleep(systemTime, pollMs);
  }
}

/** The list of erasures that ingest applies: `ingest.erasure`. */
class ErasureList {
  readonly #db: Queries;
  readonly #organizationId: string;
  readonly #salt = randomBytes(18).toString('base64url');
  #id = 0;

  constructor(db: Queries, organizationId: string) {
    this.#db = db;
    this.#organizationId = organizationId;
  }

  async add(person: Person | null, untilMs: number): Promise<void> {
    await this.#db.execute('DELETE FROM ingest.erasure WHERE expires_at < (SELECT signpost_deletion_time())');
    const [row] = await this.#db.query<{ id: number }>(
      `INSERT INTO ingest.erasure (organization_id, until_ms, salt, hashes, expires_at) VALUES ($1, $2::bigint, $3, $4, greatest(to_timestamp($2::bigint / 1000.0), now()) + make_interval(days => $5)) RETURNING id`,
      [this.#organizationId, untilMs, this.#salt, this.#hashesOf(person), erasureDays],
    );
    this.#id = row?.id ?? 0;
  }

  async extend(person: Person | null): Promise<void> {
    await this.#db.execute('UPDATE ingest.erasure SET hashes = $2 WHERE id = $1', [this.#id, this.#hashesOf(person)]);
  }

  #hashesOf(person: Person | null): string[] | null {
    if (person === null) return null;
    return erasableKinds.flatMap((kind) =>
      [...person[kind]].map((id) => erasedIdHash(this.#salt, this.#organizationId, kind, id)),
    );
  }
}
