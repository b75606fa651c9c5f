/**
 * Apps by API key in Redis, for the gateway, with immediate revocation of keys in every process.
 *
 * Postgres is authoritative. Redis has `key:<hash>` → a snapshot of the app, so that an SDK request needs no Postgres,
 * and `app_version:<app_id>` → the lowest valid version of that app. No process caches keys in memory.
 *
 * Steps of an app change (rotation, settings, deletion): version + 1 in Postgres, uncommitted → the new version to
 * Redis → commit → delete the snapshot → answer. From the second step on, a snapshot of an older version is ignored,
 * even if a slow reader of Postgres writes it late: a rotated key is invalid when the rotation is answered. While Redis
 * is unavailable, the change is rejected, because it could not be announced.
 */
import type { PrivacyMode } from '#common/log/record.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Redis, Script } from '#common/stores/redis.ts';
import type { LongLinkSettings } from './long-link-settings.ts';
import type { MigrationSettings } from './migration-settings.ts';
import type { QueryMerge } from './query-merge.ts';
import type { TapPageMode } from './tap-page.ts';

/** An app's settings for its statistics and matching. */
export interface AppSettings {
  readonly attribution_window_hours: number;
  readonly probabilistic_window_hours: number;
  readonly min_confidence: number;
  readonly privacy_mode: PrivacyMode;
  readonly conversion_events: readonly string[];
  /** Absent in snapshots from before this setting existed; then off. */
  readonly tap_page?: TapPageMode;
  /** Absent in snapshots from before this setting existed; then destination. */
  readonly query_merge?: QueryMerge;
  /** Whether the app's key may create links. Absent in snapshots from before this setting existed; then it may. */
  readonly sdk_links?: boolean;
  /** Whether short codes are case-insensitive. Absent in older snapshots; then they are not. */
  readonly codes_ignore_case?: boolean;
  /** Null or absent: Firebase long links are not answered. */
  readonly firebase_links?: LongLinkSettings | null;
  /** Null or absent: unknown codes are not looked up elsewhere. */
  readonly migration?: MigrationSettings | null;
}

/** An app as an SDK request needs it. `version` is the app's at the time of reading. */
export interface AppSnapshot {
  readonly app_id: string;
  readonly organization_id: string;
  readonly version: number;
  readonly name: string;
  readonly host: string;
  readonly ios: unknown;
  readonly android: unknown;
  readonly fallback_url: string | null;
  readonly allowed_destination_hosts: readonly string[];
  readonly settings: AppSettings;
}

/** A snapshot is read again from Postgres after this time in any case. */
export const SNAPSHOT_SECONDS = 300;
/** Longer than any snapshot lives, and than any process can pause between reading Postgres and writing to Redis. */
export const VERSION_SECONDS = 3600;
/**
 * Until a change is committed its version lives only this long: longer than the commit may take, but short, so that a
 * failed commit does not invalidate the app's snapshots for an hour.
 */
const PENDING_SECONDS = 30;

/** `hash` is ApiKeys.hash of the API key. */
export function snapshotKey(hash: Buffer): string {
  return `key:${hash.toString('base64url')}`;
}

const versionKeyPrefix = 'app_version:';

export function versionKey(appId: string): string {
  return versionKeyPrefix + appId;
}

/**
 * The lookup as a Lua function, for scripts that do more in the same round trip. `snapshot(key, version_key, app_id)`
 * returns the snapshot as JSON text, or nothing if there is no valid one, and its app id. If the caller named the keys
 * of a different app than the snapshot's, only the snapshot's app id is returned. The value in Redis is `<version>
 * <app_id> <json>`, so that Redis parses no JSON.
 */
export const snapshotLua = `
local function snapshot(key, version_key, expected)
  local value = redis.call('GET', key)
  if not value then return nil end
  local version, app_id, json = string.match(value, '^(%d+) (%S+) (.*)$')
  if app_id ~= expected then return nil, app_id end
  local lowest = redis.call('GET', version_key)
  if not lowest or tonumber(version) < tonumber(lowest) then return nil end
  return json, app_id
end
`;

/** KEYS: snapshot key, version key of the app. ARGV: app id. Returns {json}, the id of another app, or nothing. */
const readScript = `${snapshotLua}
local json, app_id = snapshot(KEYS[1], KEYS[2], ARGV[1])
if json then return {json} end
return app_id
`;

/** KEYS: snapshot key, version key. ARGV: version, app id, JSON, seconds of the snapshot, seconds of the version. */
const writeScript = `
local lowest = redis.call('GET', KEYS[2])
if lowest and tonumber(ARGV[1]) < tonumber(lowest) then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[5])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], 'EX', ARGV[4])
return 1
`;

/** KEYS: version key. ARGV: version, seconds. A version never goes down. */
const raiseScript = `
local lowest = redis.call('GET', KEYS[1])
if lowest and tonumber(ARGV[1]) < tonumber(lowest) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
`;

/** Snapshots in Redis. Every method throws if Redis is unavailable. */
export class AppSnapshots {
  readonly #redis: Redis;
  readonly #read: Script;
  readonly #write: Script;
  readonly #raise: Script;

  constructor(redis: Redis) {
    this.#redis = redis;
    this.#read = redis.script(readScript);
    this.#write = redis.script(writeScript);
    this.#raise = redis.script(raiseScript);
  }

  /** The app of a key, if Redis has it in a valid version. */
  async read(hash: Buffer): Promise<AppSnapshot | null> {
    const ask = (appId: string) => this.#read([snapshotKey(hash), versionKey(appId)], [appId]);
    const appId = await ask('');
    const answer = typeof appId === 'string' ? await ask(appId) : null;
    return Array.isArray(answer) && typeof answer[0] === 'string' ? parseSnapshot(answer[0]) : null;
  }

  /** Caches what was read from Postgres, unless the app has changed since. */
  async write(hash: Buffer, app: AppSnapshot): Promise<void> {
    const keys = [snapshotKey(hash), versionKey(app.app_id)];
    await this.#write(keys, [app.version, app.app_id, JSON.stringify(app), SNAPSHOT_SECONDS, VERSION_SECONDS]);
  }

  /** Before the commit of a change: invalidates all snapshots below this version in every process. */
  async raise(appId: string, version: number): Promise<void> {
    await this.#raise([versionKey(appId)], [version, PENDING_SECONDS]);
  }

  /** After the commit: deletes the old key's snapshot, which is already invalid; the version stays. */
  async settle(hash: Buffer, appId: string, version: number): Promise<void> {
    await Promise.all([this.#raise([versionKey(appId)], [version, VERSION_SECONDS]), this.forget(hash)]);
  }

  async forget(hash: Buffer): Promise<void> {
    await this.#redis.commands.del(snapshotKey(hash));
  }
}

/** Parses a snapshot from Redis; it was written by this program, so its shape is known. */
export function parseSnapshot(json: string): AppSnapshot {
  return JSON.parse(json) as AppSnapshot;
}

const byHash = `
  SELECT id AS app_id, organization_id, version, name, host, ios, android, fallback_url, allowed_destination_hosts, settings
    FROM apps WHERE api_key_hash = ANY ($1) AND deleted_at IS NULL`;

/** The app of a key from Postgres. `hashes` is ApiKeys.hashes of the API key. */
export async function readAppByKey(db: Queries, hashes: readonly Buffer[]): Promise<AppSnapshot | null> {
  const [app] = await db.query<AppSnapshot>(byHash, [hashes], 'app_by_key');
  return app ?? null;
}
