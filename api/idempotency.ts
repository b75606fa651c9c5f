/**
 * Idempotency-Key: for 24 hours, repeating a request with the same key returns the first response, even while the first
 * request is still being processed. A different request with the same key gets a 400, and so does a caller whose rights
 * have changed. A response with a secret is not stored: repeating the request only says that it is done.
 *
 *   (absent) ──begin──▶ running ──answered──▶ kept ──24 h──▶ (absent)
 *                          └──failed, or its process died a minute ago──▶ (absent)
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import type { Encryption } from '#common/encryption.ts';
import type { Once } from '#common/http/mount.ts';
import { invalid, Rejection, statusOf, unavailable } from '#common/http/rejection.ts';
import type { Answer } from '#common/http/route.ts';
import type { Log } from '#common/process/telemetry.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { UserCaller } from './route.ts';

const KEY_CHARACTERS_MAX = 255;
const keyShape = /^[\x21-\x7e]+$/;
const KEPT_MS = DAY_MS;
/** Longer than any request can take. */
const LOCK_MS = MINUTE_MS;
/** How long a repeated request waits for the first one to finish. */
const PATIENCE_MS = 10_000;
const LOOK_MS = 50;
/** Expired rows that one request deletes; more than it adds, so that the table stays bounded. */
const PURGED_MAX = 20;
const FIELD = 'idempotency-key';

const compress = promisify(gzip);
const decompress = promisify(gunzip);

interface Row {
  readonly fingerprint: Buffer;
  readonly answer: string | null;
}

/** `done`: the request succeeded, and its answer has a secret. */
type Kept =
  | 'done'
  | {
      readonly status: number;
      readonly body: unknown;
      readonly headers?: Readonly<Record<string, string>> | undefined;
    };

const begin = `
  WITH expired AS (DELETE FROM idempotency_keys WHERE (caller, key) IN (
    SELECT caller, key FROM idempotency_keys WHERE expires_at <= signpost_deletion_time() AND (caller, key) <> ($1, $2)
     ORDER BY expires_at LIMIT ${PURGED_MAX} FOR UPDATE SKIP LOCKED))
  INSERT INTO idempotency_keys AS k (caller, key, fingerprint, locked_until, expires_at)
  SELECT $1, $2, $3, date_trunc('milliseconds', now()) + interval '${LOCK_MS} milliseconds', now() + interval '${KEPT_MS} milliseconds'
  ON CONFLICT (caller, key) DO UPDATE
     SET fingerprint = EXCLUDED.fingerprint, locked_until = EXCLUDED.locked_until, expires_at = EXCLUDED.expires_at, answer = NULL
   WHERE k.expires_at <= signpost_deletion_time()
      OR (k.answer IS NULL AND k.locked_until NOT BETWEEN now() AND now() + interval '${2 * LOCK_MS} milliseconds')
  RETURNING locked_until`;

interface Lock {
  readonly who: string;
  readonly key: string;
  readonly lockedUntil: Date;
  readonly showsSecret: boolean;
}

/** The row is still that of this request: after LOCK_MS, another one may have taken it. */
const isLocked = 'caller = $1 AND key = $2 AND locked_until = $3 AND answer IS NULL';

export interface IdempotencyParts {
  readonly db: Postgres;
  readonly encryption: Encryption;
  readonly log: Pick<Log, 'warn'>;
}

export class Idempotency {
  readonly #db: Postgres;
  readonly #encryption: Encryption;
  readonly #log: Pick<Log, 'warn'>;

  constructor({ db, encryption, log }: IdempotencyParts) {
    this.#db = db;
    this.#encryption = encryption;
    this.#log = log;
  }

  /** Runs the handler, or returns its stored response. Callers without an identity cannot use keys. */
  readonly once: Once = async ({ name, showsSecret }, { caller, params, query, rawBody, header }, handle) => {
    const key = header(FIELD);
    const who = identityOf(caller);
    if (key === '' || who === null) return handle();
    if (key.length > KEY_CHARACTERS_MAX || !keyShape.test(key))
      return invalid(FIELD, `must have 1 to ${KEY_CHARACTERS_MAX} visible ASCII characters`);
    const fingerprint = createHash('sha256')
      .update(
        JSON.stringify([name, params, query, name.startsWith('POST /me/') ? null : rightsFor(caller as UserCaller)]),
      )
      .update(rawBody.bytes)
      .digest();
    const begun = await this.#begin(who, key, fingerprint);
    return begun instanceof Date ? this.#run({ who, key, lockedUntil: begun, showsSecret }, handle) : begun;
  };

  /** The end of its lock if the request has to be processed now, otherwise its stored response. */
  async #begin(who: string, key: string, fingerprint: Buffer): Promise<Date | Answer | Rejection> {
    for (let waitedMs = 0; waitedMs <= PATIENCE_MS; waitedMs += LOOK_MS) {
      const values = [who, key, fingerprint];
      const [ours] = await this.#db.query<{ locked_until: Date }>(begin, values, 'idempotency_begin');
      if (ours) return ours.locked_until;
      const sql = 'SELECT fingerprint, answer FROM idempotency_keys WHERE caller = $1 AND key = $2';
      const [row] = await this.#db.query<Row>(sql, [who, key], 'idempotency_read');
      if (row && !row.fingerprint.equals(fingerprint))
        return invalid(
          FIELD,
          'was used for another request, or with other rights, within the last 24 hours: use a new key',
        );
      if (row?.answer) return this.#replay(who, key, row.answer);
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
    return unavailable('The first request with this Idempotency-Key is still being processed.', 1);
  }

  async #replay(who: string, key: string, answer: string): Promise<Answer | Rejection> {
    let packed: string;
    try {
      packed = this.#encryption.decrypt(answer, contextOf(who, key));
    } catch {
      return invalid(FIELD, 'has an answer that can no longer be read: check what the request did, and use a new key');
    }
    const kept = JSON.parse((await decompress(Buffer.from(packed, 'base64'))).toString()) as Kept;
    if (kept === 'done')
      return invalid(FIELD, 'was used: the request is done, and its answer has a secret that is shown only once');
    const { status, body, headers } = kept;
    return { status, body, headers: { ...headers, 'Idempotent-Replayed': 'true' } };
  }

  /**
   * A failed request may be retried; any other response is stored, including a rejection. If it cannot be stored, it is
   * sent anyway: after a 500, the client would repeat what is done.
   */
  async #run(lock: Lock, handle: Parameters<Once>[2]): Promise<Answer | Rejection> {
    let answer: Answer | Rejection | undefined;
    try {
      answer = await handle();
    } finally {
      try {
        await this.#end(lock, answer && keptOf(answer, lock.showsSecret));
      } catch (err) {
        this.#log.warn({ err }, 'the response to a request with an Idempotency-Key could not be stored');
      }
    }
    return answer;
  }

  async #end(lock: Lock, kept: Kept | null | undefined): Promise<void> {
    if (kept) return await this.#keep(lock, kept);
    const sql = `DELETE FROM idempotency_keys WHERE ${isLocked}`;
    await this.#db.query(sql, [lock.who, lock.key, lock.lockedUntil]);
  }

  async #keep({ who, key, lockedUntil }: Lock, kept: Kept): Promise<void> {
    const packed = (await compress(JSON.stringify(kept))).toString('base64');
    await this.#db.query(
      `UPDATE idempotency_keys SET answer = $4 WHERE ${isLocked}`,
      [who, key, lockedUntil, this.#encryption.encrypt(packed, contextOf(who, key))],
      'idempotency_keep',
    );
  }
}

function identityOf(caller: unknown): string | null {
  if (typeof caller !== 'object' || caller === null || !('user_id' in caller)) return null;
  return String(caller.user_id);
}

/**
 * What the caller may do, so that an answer is repeated only to someone who may still ask for it. Requests about their own
 * account need no rights, and may change them.
 */
function rightsFor({ memberships, session, key }: UserCaller): unknown {
  const roles = memberships.map(({ organization_id, role }) => `${organization_id} ${role}`).sort();
  return [roles, session?.organization_id, key?.app_ids];
}

function contextOf(who: string, key: string): string {
  return `idempotency:${who}:${key}`;
}

/** Null for a response that is not stored: a failure, or not JSON. */
function keptOf(answer: Answer | Rejection, showsSecret: boolean): Kept | null {
  if (answer instanceof Rejection) {
    const status = statusOf[answer.code];
    return status < 500 && status !== statusOf.RATE_LIMITED ? { status, body: answer.body } : null;
  }
  if (!('body' in answer) || answer.status >= 500) return null;
  const { status, body, headers } = answer;
  return showsSecret ? 'done' : { status, body, headers };
}
