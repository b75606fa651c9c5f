/** Erases a person, or all people of an organization, from Postgres, Redis and the log. */
import { addressStart, clicksOfApp, idStart, timePartOf } from '#common/attribution/click-lines.ts';
import { signalsKey } from '#common/links/tap-page.ts';
import type { NatsClient } from '#common/stores/nats.ts';
import { PostgresUnavailable, type Queries } from '#common/stores/postgres.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import { installNames, matchKeys, type Person } from './erase-person.ts';
import { AdminError } from './questions.ts';

/** Tables that contain ids of people. */
const tables = [
  'install_names',
  'install_answers',
  'claims',
  'device_aliases',
  'webhook_messages',
  'ingest.unfinished_erasure',
] as const;
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
  await db.execute(
    `DELETE FROM webhook_messages WHERE data ->> 'app_id' = ANY ($1) AND type NOT LIKE 'link.%' AND ($2::text[] IS NULL
       OR data ->> 'install_id' = ANY ($2) OR data ->> 'device_id' = ANY ($3) OR data ->> 'user_id' = ANY ($3))`,
    [appIds, installs, named],
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

/**
 * KEYS: one key of lines. ARGV: prefixes of the lines to remove. Returns how many lines were removed; the rest expires
 * as before.
 */
const removeLinesScript = `
local text = redis.call('GET', KEYS[1])
if not text then return 0 end
local gone = 0
local kept = {}
for line in string.gmatch(text, '[^\\n]*\\n') do
  local isGone = false
  for _, start in ipairs(ARGV) do isGone = isGone or string.sub(line, 1, #start) == start end
  if isGone then gone = gone + 1 else kept[#kept + 1] = line end
end
if #kept == 0 then redis.call('DEL', KEYS[1])
elseif gone > 0 then redis.call('SET', KEYS[1], table.concat(kept), 'PX', math.max(1, redis.call('PTTL', KEYS[1]))) end
return gone
`;

type RedisToErase = Pick<Redis, 'commands' | 'script'>;

/** @param person null for all people of the apps. @returns the number of removed keys. */
export async function eraseInRedis(
  redis: RedisToErase,
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
      ...[...person.click].flatMap((id) => [`claim:${id}`, signalsKey(id)]),
      ...appIds.flatMap((app) => [
        ...[...person.install].map((id) => `install:${app}:${id}`),
        ...[...person.device].map((id) => `device:${app}:${id}`),
      ]),
    ];
    if (keys.length > 0) removed += await commands.del(...keys);
  }
  const forget = redis.script(removeLinesScript);
  const ofApps = new RegExp(`^(?:near|match|install|device|open):(?:${appIds.join('|')}):`);
  let cursor = '0';
  do {
    const [next, keys] = await commands.scan(cursor, 'COUNT', scanCount);
    cursor = next;
    for (const key of keys) removed += await eraseKey({ redis, forget, ofApps, appIds, person }, key);
  } while (cursor !== '0');
  return removed;
}

interface ErasureInRedis {
  readonly redis: RedisToErase;
  readonly forget: Script;
  /** Matches keys that name one of the apps. */
  readonly ofApps: RegExp;
  readonly appIds: readonly string[];
  /** Null for all people of the apps. */
  readonly person: Person | null;
}

async function eraseKey(erasure: ErasureInRedis, key: string): Promise<number> {
  const { redis, ofApps, appIds, person } = erasure;
  const { commands } = redis;
  if (key.startsWith('clicks:')) return await eraseLinesById(erasure, key);
  if (key.startsWith('near:') && ofApps.test(key) && person !== null) {
    return await removeLines(erasure, key, [...person.click].map(addressStart));
  }
  if (ofApps.test(key)) return person === null || isOpenOf(key, person) ? await commands.del(key) : 0;
  // Answers have to be read, because their keys are only match ids.
  const json = key.startsWith('match_id:') ? await commands.get(key) : null;
  if (json === null) return 0;
  const { app_id = '', click_id = '' } = JSON.parse(json) as { app_id?: string; click_id?: string };
  if (!appIds.includes(app_id) || (person !== null && !person.click.has(click_id))) return 0;
  return await commands.del(key);
}

/** A person's clicks are found by their ids, an app's by their lines. */
async function eraseLinesById(erasure: ErasureInRedis, key: string): Promise<number> {
  const { redis, appIds, person } = erasure;
  const timePart = key.slice('clicks:'.length);
  if (person !== null) {
    const own = [...person.click].filter((id) => timePartOf(id) === timePart);
    return await removeLines(erasure, key, own.map(idStart));
  }
  const lines = (await redis.commands.get(key)) ?? '';
  const ids = appIds.flatMap((appId) => clicksOfApp(lines, timePart, appId));
  if (ids.length > 0) await redis.commands.del(...ids.flatMap((id) => [`claim:${id}`, signalsKey(id)]));
  return await removeLines(erasure, key, ids.map(idStart));
}

async function removeLines({ forget }: ErasureInRedis, key: string, starts: readonly string[]): Promise<number> {
  return starts.length === 0 ? 0 : Number(await forget([key], starts));
}

/** Links that a device opened recently: `open:<app>:<device>:<url>`. */
function isOpenOf(key: string, { device, install }: Person): boolean {
  if (!key.startsWith('open:')) return false;
  const rest = key.slice(key.indexOf(':', 5) + 1);
  return [...device, ...install].some((id) => rest.startsWith(`${id}:`));
}

/**
 * Purges the log. Its records are already stored, except the newest ones, which are in the journals and are published
 * again within two minutes. A later replay cannot go back before this moment. @throws AdminError
 */
export async function emptyLog(nats: NatsClient): Promise<void> {
  const answer = await nats.request(nats.names.api('STREAM.PURGE'), Buffer.alloc(0));
  const { success, error } =
    answer?.status === 0
      ? (JSON.parse(answer.bytes.toString()) as { success?: boolean; error?: { description?: string } })
      : {};
  if (success !== true) throw new AdminError(`the log was not purged: ${error?.description ?? 'NATS does not answer'}`);
}
