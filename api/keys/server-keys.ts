/** Looks up server keys on every request, so that deleting a key takes effect at the next request. */
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '#common/clock.ts';
import { MINUTE_MS } from '#common/durations.ts';
import type { KeyScope } from '#common/http/route.ts';
import type { Postgres } from '#common/stores/postgres.ts';

export interface FoundServerKey {
  readonly id: string;
  readonly organization_id: string;
  readonly scopes: readonly KeyScope[];
  readonly app_ids: readonly string[] | null;
}

/** A key has 202 random bits, so a plain hash reveals nothing, and it does not depend on SECRET_KEY. */
export function hashOfServerKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Whether the scopes include this one: writing includes reading. */
export function allows(scopes: readonly KeyScope[], scope: KeyScope): boolean {
  return scopes.includes(scope) || scopes.some((one) => one === scope.replace(/:read$/, ':write'));
}

const knownMax = 10_000;

export class ServerKeys {
  readonly #db: Postgres;
  readonly #clock: Clock;
  /** Ids of known keys, by their hash. Whether a key is still valid is queried on every request. */
  readonly #known = new LRUCache<string, string>({ max: knownMax });

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** The id of a key that was valid when this process last looked it up. */
  idOfKnown(key: string): string | undefined {
    return this.#known.get(hashOfServerKey(key).toString('base64'));
  }

  /** Null for an unknown, deleted or expired key. Records its use, at most once a minute. */
  async find(key: string): Promise<FoundServerKey | null> {
    const now = new Date(this.#clock());
    const [row] = await this.#db.query<FoundServerKey & { last_used_at: Date | null }>(
      `SELECT k.id, k.organization_id, k.scopes, k.app_ids, k.last_used_at
         FROM server_keys k JOIN organizations o ON o.id = k.organization_id
        WHERE k.key_hash = $1 AND (k.expires_at IS NULL OR k.expires_at > $2) AND o.deleted_at IS NULL`,
      [hashOfServerKey(key), now],
      'server_key',
    );
    const hash = hashOfServerKey(key).toString('base64');
    if (!row) {
      this.#known.delete(hash);
      return null;
    }
    this.#known.set(hash, row.id);
    const { last_used_at, ...found } = row;
    if (last_used_at === null || last_used_at.getTime() + MINUTE_MS <= now.getTime()) await this.#used(found.id, now);
    return found;
  }

  /** The condition ensures that only one of several concurrent requests writes it. */
  async #used(id: string, now: Date): Promise<void> {
    await this.#db.query(
      'UPDATE server_keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)',
      [id, now, new Date(now.getTime() - MINUTE_MS)],
      'server_key_used',
    );
  }
}
