/**
 * API keys: how they look, how they are kept, and how every process learns at once that one is dead.
 *
 * Kept: Postgres has the truth (keyed hash and ciphertext). Redis has `key:<hash>` → a snapshot of the app, so that an
 * SDK request needs no Postgres, and `app_version:<app_id>` → the lowest version of that app that may still be used.
 *
 * A change of an app (rotation, settings, deletion) goes: version + 1 in Postgres, not committed → the new version to
 * Redis → commit → the snapshot is deleted → answer. From the second step on a snapshot of the old version counts for
 * nothing, also one that a slow reader of Postgres writes late: a rotated key is dead when the rotation is answered.
 * Redis away: the change is refused. There is no cache of keys in any process.
 */
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { KeyedHash, type SecretKey } from './encryption.ts';

const PREFIX = 'lk_';
const RANDOM_CHARACTERS = 34;
const CHECKSUM_CHARACTERS = 6;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shape = /^lk_[0-9A-Za-z]{40}$/;

/** A new key: `lk_`, 34 random base62 characters (202 bits) and a checksum of 6. */
export function newApiKey(): string {
  let body = '';
  while (body.length < RANDOM_CHARACTERS) {
    // 248 is the largest multiple of 62 in a byte; the rest is thrown away, so that no character is likelier.
    for (const byte of randomBytes(48)) if (byte < 248 && body.length < RANDOM_CHARACTERS) body += alphabet.charAt(byte % 62);
  }
  return PREFIX + body + checksum(body);
}

/** Whether the text can be one of our keys. Junk is told from keys by this alone, without a look-up. */
export function isApiKey(text: string): boolean {
  if (!shape.test(text)) return false;
  const body = text.slice(PREFIX.length, PREFIX.length + RANDOM_CHARACTERS);
  return text.slice(PREFIX.length + RANDOM_CHARACTERS) === checksum(body);
}

/** What lists show: enough to tell keys apart, not enough to use one. */
export function apiKeyPreview(key: string): string {
  return `${key.slice(0, PREFIX.length + 4)}…${key.slice(-4)}`;
}

/** CRC-32 in base62, six digits. */
function checksum(body: string): string {
  let rest = crc32(body);
  let digits = '';
  for (let at = 0; at < CHECKSUM_CHARACTERS; at++) {
    digits = alphabet.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** The hash under which a key is looked up, in Postgres (any of `all`) and in Redis (`newest`). */
export function apiKeyHash(secrets: readonly SecretKey[]): KeyedHash {
  return new KeyedHash(secrets, 'api-key');
}

/** What the ciphertext of an app's key is bound to. */
export function apiKeyContext(appId: string): string {
  return `api_key:${appId}`;
}

export type PrivacyMode = 'anonymize_ip' | 'full_ip' | 'no_ip';

/** How an app wants its figures made. */
export interface AppSettings {
  readonly attribution_window_hours: number;
  readonly probabilistic_window_hours: number;
  readonly min_confidence: number;
  readonly privacy_mode: PrivacyMode;
  readonly conversion_events: readonly string[];
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

/** A snapshot is read again from Postgres after this long, whatever happened. */
export const SNAPSHOT_SECONDS = 300;
/** Longer than any snapshot and any reader of Postgres can live. */
export const VERSION_SECONDS = 3600;

export function snapshotKey(hash: Buffer): string {
  return `key:${hash.toString('base64url')}`;
}

export const versionKeyPrefix = 'app_version:';

export function versionKey(appId: string): string {
  return versionKeyPrefix + appId;
}

/**
 * The look-up as a Lua function, for scripts that do more in the same round trip.
 * `snapshot(key)` returns the snapshot as JSON text and its app id, or nothing when there is none that may be used.
 * The value in Redis is `<version> <app_id> <json>`, so that no JSON is parsed in Redis.
 */
export const snapshotLua = `
local function snapshot(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local version, app_id, json = string.match(value, '^(%d+) (%S+) (.*)$')
  local lowest = redis.call('GET', '${versionKeyPrefix}' .. app_id)
  if not lowest or tonumber(version) < tonumber(lowest) then return nil end
  return json, app_id
end
`;

/** KEYS[1] a snapshot key. Answers the JSON or null. */
export const readSnapshotScript = `${snapshotLua}
local json = snapshot(KEYS[1])
return json
`;

/**
 * Puts a snapshot that was read from Postgres into Redis, unless the app has changed since.
 * KEYS: snapshot key, version key. ARGV: version, app id, JSON, seconds of the snapshot, seconds of the version.
 */
export const writeSnapshotScript = `
local lowest = redis.call('GET', KEYS[2])
if lowest and tonumber(ARGV[1]) < tonumber(lowest) then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[5])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], 'EX', ARGV[4])
return 1
`;

/** Makes every snapshot below a version worthless. KEYS: version key. ARGV: version, seconds. It never goes down. */
export const raiseVersionScript = `
local lowest = redis.call('GET', KEYS[1])
if lowest and tonumber(ARGV[1]) < tonumber(lowest) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
`;
