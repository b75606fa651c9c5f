/**
 * Names under which addresses are counted in Redis, so that no address can be read there. Every process with the same
 * SECRET_KEY has the same names; for a minute after a key is added at the front, an address counts under two names.
 */
import { hash } from 'node:crypto';
import { deriveKey, type SecretKey } from './encryption.ts';

/** 96 bits: collisions do not occur in practice. */
const nameChars = 16;
/** Addresses whose names are cached. */
const knownMax = 10_000;

export class CountedAddresses {
  readonly #key: string;
  readonly #known = new Map<string, string>();

  constructor(secrets: readonly SecretKey[]) {
    const [newest] = secrets;
    if (!newest) throw new Error('names of addresses need at least one key');
    this.#key = deriveKey(newest, 'counted addresses').toString('base64url');
  }

  /** @param address an address or network, as counted by rate limits. */
  nameOf(address: string): string {
    let name = this.#known.get(address);
    if (name === undefined) {
      if (this.#known.size >= knownMax) this.#known.clear();
      // A key of fixed length before the text, and half of the digest: as secure as an HMAC.
      name = hash('sha256', `${this.#key}\n${address}`, 'base64url').slice(0, nameChars);
      this.#known.set(address, name);
    }
    return name;
  }
}
