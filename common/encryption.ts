/**
 * Secrets at rest. SECRET_KEY is a list of named keys, newest first: the newest encrypts and signs, all decrypt and
 * verify, so a key is rotated by adding a new one at the front and removing the old one once it is unused. No key is
 * used directly: each purpose gets its own by HKDF (RFC 5869).
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/** One entry of SECRET_KEY. `id` is public and is stored next to whatever the key has encrypted or signed. */
export interface SecretKey {
  readonly id: string;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

const KEYS_MAX = 10;
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const keyId = /^[A-Za-z0-9_-]{1,32}$/;
const base64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** Reads `id:base64,id:base64`. @throws Error that says what is wrong without revealing the key. */
export function parseSecretKeys(text: string): SecretKey[] {
  const keys = text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry, at) => parseSecretKey(entry, at));
  if (keys.length === 0) throw new Error('SECRET_KEY contains no key: write id:base64 of 32 random bytes');
  if (keys.length > KEYS_MAX) throw new Error(`SECRET_KEY contains more than ${KEYS_MAX} keys`);
  if (new Set(keys.map((key) => key.id)).size < keys.length) throw new Error('SECRET_KEY contains the same id twice');
  return keys;
}

function parseSecretKey(entry: string, at: number): SecretKey {
  const colon = entry.indexOf(':');
  const id = entry.slice(0, Math.max(colon, 0));
  if (!keyId.test(id))
    throw new Error(`key ${at + 1} of SECRET_KEY has no id before a colon (letters, digits, - and _)`);
  const encoded = entry.slice(colon + 1);
  const key = base64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.alloc(0);
  if (key.length !== KEY_BYTES) throw new Error(`key ${id} of SECRET_KEY is not base64 of ${KEY_BYTES} bytes`);
  return { id, key };
}

/** A new entry for SECRET_KEY, named after its day unless a name is given. */
export function newSecretKey(id: string): string {
  if (!keyId.test(id)) throw new Error('the id of a key is 1 to 32 letters, digits, - and _');
  return `${id}:${randomBytes(KEY_BYTES).toString('base64')}`;
}

/** The key for one purpose, derived from a secret key. */
export function deriveKey(secret: SecretKey, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret.key, 'signpost', purpose, KEY_BYTES));
}

/**
 * AES-256-GCM under the keys of SECRET_KEY. The result is `key id.base64url(iv, ciphertext, tag)`. `context` says what
 * is encrypted and for whom. It is authenticated too, so that a ciphertext moved to another row does not decrypt there.
 */
export class Encryption {
  readonly #keys: ReadonlyMap<string, Buffer>;
  readonly newestId: string;

  constructor(secrets: readonly SecretKey[]) {
    const [newest] = secrets;
    if (!newest) throw new Error('encryption needs at least one key');
    this.newestId = newest.id;
    this.#keys = new Map(secrets.map((secret) => [secret.id, deriveKey(secret, 'encryption')]));
  }

  encrypt(plaintext: string, context: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#keyOf(this.newestId), iv);
    cipher.setAAD(Buffer.from(context));
    const body = Buffer.concat([iv, cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return `${this.newestId}.${body.toString('base64url')}`;
  }

  /** @throws if the key is no longer in SECRET_KEY, or the text was modified or belongs to another context. */
  decrypt(sealed: string, context: string): string {
    const id = keyIdOf(sealed);
    const body = Buffer.from(sealed.slice(id.length + 1), 'base64url');
    if (body.length < IV_BYTES + TAG_BYTES) throw new Error('a ciphertext is too short');
    const decipher = createDecipheriv('aes-256-gcm', this.#keyOf(id), body.subarray(0, IV_BYTES));
    decipher.setAAD(Buffer.from(context));
    decipher.setAuthTag(body.subarray(body.length - TAG_BYTES));
    return (
      decipher.update(body.subarray(IV_BYTES, body.length - TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
    );
  }

  #keyOf(id: string): Buffer {
    const key = this.#keys.get(id);
    if (!key)
      throw new Error(
        `SECRET_KEY has no key named ${id}, but a stored value was encrypted with it: add that key again`,
      );
    return key;
  }
}

/** The id of the key a text was encrypted with. */
export function keyIdOf(sealed: string): string {
  return sealed.slice(0, Math.max(sealed.indexOf('.'), 0));
}

/**
 * Hashes under a key, so that a stolen table can't be searched by guessing, while equal values are still found. A value
 * has one hash per key: write the first, look for any.
 */
export class KeyedHash {
  readonly #keys: readonly Buffer[];

  constructor(secrets: readonly SecretKey[], purpose: string) {
    if (secrets.length === 0) throw new Error('a keyed hash needs at least one key');
    this.#keys = secrets.map((secret) => deriveKey(secret, `hash:${purpose}`));
  }

  /** HMAC-SHA256 under each key, newest first. */
  all(value: string): Buffer[] {
    return this.#keys.map((key) => createHmac('sha256', key).update(value).digest());
  }

  newest(value: string): Buffer {
    const [key] = this.#keys;
    if (!key) throw new Error('a keyed hash needs at least one key');
    return createHmac('sha256', key).update(value).digest();
  }
}
