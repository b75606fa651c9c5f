/** Erases a person, or all people of an organization, from Postgres, Redis and the log. */
import { signalsKey } from '#common/links/tap-page.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis } from '#common/stores/redis.ts';
import { installNames, matchKeys, type Person } from './erase-person.ts';
import { AdminError } from './questions.ts';

/** Tables that contain ids of people. */
const tables = ['install_names', 'install_answers', 'claims', 'device_aliases'] as const;
/** A larger table is not rewritten, because its writers would block for too long. */
const rewriteBytesMax = 1_073_741_824;

/** @param person null for all people of the apps. @returns the number of removed installs. */
export async function eraseInPostgres(db: Queries, appIds: readonly string[], person: Person | null): Promise<number> {
  const [names, installs] = person === null ? [null, null] : [installNames(person), [...person.install]];
  await db.execute(
    `DELETE FROM install_names WHERE app_id = ANY ($1) AND ($2::text[] IS NULL OR name = ANY ($2) OR install_id = ANY ($3))`,
    [appIds, names, installs],
  );
  const claimants = person === null ? null : [...person.device, ...person.install];
  await db.execute(
    `DELETE FROM claims WHERE app_id = ANY ($1) AND ($2::text[] IS NULL OR device = ANY ($2) OR click_id = ANY ($3))`,
    [appIds, claimants, person === null ? null : [...person.click]],
  );
  const named = person === null ? null : [...person.device, ...person.user];
  await db.execute(
    `DELETE FROM device_aliases WHERE app_id = ANY ($1) AND ($2::text[] IS NULL OR id = ANY ($2) OR previous_id = ANY ($2))`,
    [appIds, named],
  );
  return await db.execute(
    `DELETE FROM install_answers WHERE app_id = ANY ($1) AND ($2::text[] IS NULL OR install_id = ANY ($2))`,
    [appIds, installs],
  );
}

/**
 * Deleted rows stay readable in files until they are overwritten: the tables are rewritten, and the current segment of the
 * write-ahead log is closed, so that the server removes it.
 * @returns one sentence for each step that failed.
 */
export async function scrubPostgres(db: Queries): Promise<string[]> {
  const left: string[] = [];
  for (const table of tables) {
    const [size] = await db.query<{ bytes: number }>('SELECT pg_total_relation_size($1::regclass) AS bytes', [table]);
    const isSmall = Number(size?.bytes ?? 0) <= rewriteBytesMax;
    await db.execute(`VACUUM (${isSmall ? 'FULL, ' : ''}ANALYZE) ${table}`);
    if (!isSmall)
      left.push(
        `${table} is too large to rewrite automatically: run VACUUM FULL ${table} to remove deleted data from its files`,
      );
  }
  // Column statistics contain sampled values.
  for (const statement of ['VACUUM (FULL) pg_statistic', 'SELECT pg_switch_wal()', 'CHECKPOINT']) {
    try {
      await db.execute(statement);
    } catch (error) {
      if (error instanceof PostgresUnavailable) throw error;
      left.push(
        `the role is not allowed to run ${statement}: deleted data stays in files until Postgres overwrites it`,
      );
    }
  }
  return left;
}

const scanCount = 1_000;

/** @param person null for all people of the apps. @returns the number of removed keys. */
export async function eraseInRedis(
  redis: Pick<Redis, 'commands'>,
  appIds: readonly string[],
  person: Person | null,
): Promise<number> {
  let removed = 0;
  const { commands } = redis;
  if (person !== null) {
    const answers = matchKeys(appIds, person);
    const matches = answers.length === 0 ? [] : await commands.mget(answers);
    const matchIds = matches.flatMap((json) =>
      json === null ? [] : [(JSON.parse(json) as { match_id: string }).match_id],
    );
    const keys = [
      ...answers,
      ...matchIds.map((id) => `match_id:${id}`),
      ...[...person.click].flatMap((id) => [`click:${id}`, `claim:${id}`, signalsKey(id)]),
      ...appIds.flatMap((app) => [
        ...[...person.install].map((id) => `install:${app}:${id}`),
        ...[...person.device].map((id) => `device:${app}:${id}`),
      ]),
    ];
    if (keys.length > 0) removed += await commands.del(...keys);
  }
  const ofApps = new RegExp(`^(?:recent|match|install|device|open):(?:${appIds.join('|')}):`);
  let cursor = '0';
  do {
    const [next, keys] = await commands.scan(cursor, 'COUNT', scanCount);
    cursor = next;
    for (const key of keys) removed += await eraseKey(redis, key, ofApps, appIds, person);
  } while (cursor !== '0');
  return removed;
}

async function eraseKey(
  { commands }: Pick<Redis, 'commands'>,
  key: string,
  ofApps: RegExp,
  appIds: readonly string[],
  person: Person | null,
): Promise<number> {
  if (key.startsWith('recent:') && ofApps.test(key) && person !== null) {
    const members = await commands.zrange(key, '0', '-1');
    const own = members.filter((member) => person.click.has(member.slice(0, 30)));
    return own.length === 0 ? 0 : await commands.zrem(key, ...own);
  }
  if (ofApps.test(key)) return person === null || isOpenOf(key, person) ? await commands.del(key) : 0;
  // The clicks of one person are found by their ids; answers have to be read, because their keys are only match ids.
  const isLookedInto = key.startsWith('match_id:') || (person === null && key.startsWith('click:'));
  const json = isLookedInto ? await commands.get(key) : null;
  if (json === null) return 0;
  const { app_id = '', click_id = '' } = JSON.parse(json) as { app_id?: string; click_id?: string };
  if (!appIds.includes(app_id) || (person !== null && !person.click.has(click_id))) return 0;
  const clickId = key.startsWith('click:') ? key.slice('click:'.length) : '';
  return await commands.del(key, ...(clickId === '' ? [] : [`claim:${clickId}`, signalsKey(clickId)]));
}

/** Links that a device opened recently: `open:<app>:<device>:<url>`. */
function isOpenOf(key: string, { device, install }: Person): boolean {
  if (!key.startsWith('open:')) return false;
  const rest = key.slice(key.indexOf(':', 5) + 1);
  return [...device, ...install].some((id) => rest.startsWith(`${id}:`));
}

/**
 * Purges the log. Its records are stored already, except the newest: those are in the journals, and are published again
 * within two minutes. A replay can start no earlier than now. @throws AdminError
 */
export async function emptyLog(nats: NatsClient): Promise<void> {
  const answer = await nats.request(nats.names.api('STREAM.PURGE'), Buffer.alloc(0));
  const { success, error } =
    answer?.status === 0
      ? (JSON.parse(answer.bytes.toString()) as { success?: boolean; error?: { description?: string } })
      : {};
  if (success !== true) throw new AdminError(`the log was not purged: ${error?.description ?? 'NATS does not answer'}`);
}
