/** API keys: their format and storage. app-snapshot.ts explains how processes learn that a key was revoked. */
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { Encryption, KeyedHash, keyIdOf, type SecretKey } from './encryption.ts';

/** `lk_` is an app's key, `sk_` a server key. All prefixes have three characters. */
type KeyPrefix = 'lk_' | 'sk_';
const PREFIX_CHARACTERS = 3;
const RANDOM_CHARACTERS = 34;
const CHECKSUM_CHARACTERS = 6;
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shape = /^[0-9A-Za-z]{40}$/;

/** A new key of an app. */
export function newApiKey(): string {
  return newKey('lk_');
}

/** A new key: its prefix, 34 random base62 characters (202 bits) and a checksum of 6. */
export function newKey(prefix: KeyPrefix): string {
  let body = '';
  while (body.length < RANDOM_CHARACTERS) {
    // 248 is the largest multiple of 62 in a byte; larger values are discarded, so that all characters are equally likely.
    for (const byte of randomBytes(48))
      if (byte < 248 && body.length < RANDOM_CHARACTERS) body += alphabet.charAt(byte % 62);
  }
  return prefix + body + checksum(body);
}

/** Whether the text is a well-formed key. Malformed text is rejected by this check, without a lookup. */
export function isApiKey(text: string): boolean {
  return isKey('lk_', text);
}

/** Like isApiKey, for keys with this prefix. */
export function isKey(prefix: KeyPrefix, text: string): boolean {
  const rest = text.slice(PREFIX_CHARACTERS);
  if (!text.startsWith(prefix) || !shape.test(rest)) return false;
  return rest.slice(RANDOM_CHARACTERS) === checksum(rest.slice(0, RANDOM_CHARACTERS));
}

/** The preview in lists: enough to distinguish keys, not enough to use one. */
export function apiKeyPreview(key: string): string {
  return `${key.slice(0, PREFIX_CHARACTERS + 4)}…${key.slice(-4)}`;
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

/** A key in the columns of its app. */
export interface StoredApiKey {
  readonly api_key_ciphertext: string;
  readonly api_key_hash: Buffer;
  readonly api_key_preview: string;
}

/** Stored keys: ciphertext to show them again, keyed hashes to look them up. */
export class ApiKeys {
  readonly #encryption: Encryption;
  readonly #hash: KeyedHash;

  constructor(secrets: readonly SecretKey[]) {
    this.#encryption = new Encryption(secrets);
    this.#hash = new KeyedHash(secrets, 'api-key');
  }

  /** A ciphertext is bound to its app: copied to another app's row, it does not decrypt. */
  store(key: string, appId: string): StoredApiKey {
    return {
      api_key_ciphertext: this.#encryption.encrypt(key, contextOf(appId)),
      api_key_hash: this.#hash.newest(key),
      api_key_preview: apiKeyPreview(key),
    };
  }

  /** @throws when SECRET_KEY no longer holds the key it was encrypted with. */
  show(ciphertext: string, appId: string): string {
    return this.#encryption.decrypt(ciphertext, contextOf(appId));
  }

  /** Whether the ciphertext was made with a key of SECRET_KEY other than the newest. */
  isOutdated(ciphertext: string): boolean {
    return keyIdOf(ciphertext) !== this.#encryption.newestId;
  }

  /** The hash under which Redis stores a key. */
  hash(key: string): Buffer {
    return this.#hash.newest(key);
  }

  /** The hashes under which Postgres may store a key: one for each key of SECRET_KEY. */
  hashes(key: string): Buffer[] {
    return this.#hash.all(key);
  }
}

function contextOf(appId: string): string {
  return `api_key:${appId}`;
}
