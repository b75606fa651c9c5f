/**
 * Refresh tokens: 256 random bits, stored as a hash, valid once and for 24 hours. A family ends 30 days after its login.
 *
 * A family is one login and all its renewals; its first row represents it. States of a family:
 *   live    → renewed: the token is marked used and its successor is stored, in one transaction.
 *   live    → revoked: by logout, or because a used token was sent again, which means that two clients have it.
 *   revoked → (never left).
 * Invariants: each token has at most one successor, and nothing renews a revoked family. Both writers lock
 * the family's first row before they read, so exactly one of several parallel calls gets a pair.
 * Source: RFC 9700 (OAuth 2.0 Security Best Current Practice), section 4.14.2.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { ACCESS_TOKEN_SECONDS, type AccessTokens } from '#common/access-token.ts';
import type { Clock } from '#common/clock.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';

/** Part of the API: refresh tokens expire after 24 hours. */
export const REFRESH_TOKEN_MS = 24 * 60 * 60 * 1000;
/** A login ends after this long, however often it is renewed. */
const FAMILY_MS = 30 * 24 * 60 * 60 * 1000;

export interface TokenPair {
  readonly access_token: string;
  readonly refresh_token: string;
  /** Lifetime of the access token in seconds. */
  readonly expires_in: number;
  readonly token_type: 'Bearer';
}

interface StoredToken {
  readonly user_id: string;
  readonly family_id: string;
  readonly is_revoked: boolean;
  readonly begun_at: Date;
}

/**
 * A stored pair: its user and the time of issue, which is never before the time from which the account accepts tokens,
 * whatever the clocks say.
 */
interface Issued {
  readonly user_id: string;
  readonly created_at: Date;
}

export class Sessions {
  readonly #db: Postgres;
  readonly #tokens: AccessTokens;
  readonly #clock: Clock;

  constructor(db: Postgres, tokens: AccessTokens, clock: Clock) {
    this.#db = db;
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /**
   * Issues the first pair of a new family after a login, and deletes the user's expired families. Null if the user was
   * deleted or disabled, or the password changed, since it was compared, which takes a while and waits in a queue. The
   * user's row is locked first, so that a reset comes either before (and is seen here) or after (and sees the family).
   * @param passwordHash the hash with which the password was compared; null for a login that needs none.
   */
  async begin(userId: string, passwordHash: string | null): Promise<TokenPair | null> {
    const now = new Date(this.#clock());
    const refreshToken = newRefreshToken();
    const id = randomUUID();
    const [begun] = await this.#db.query<Issued>(
      `WITH live AS (
         SELECT id, not_before FROM users
          WHERE id = $2 AND deleted_at IS NULL AND disabled_at IS NULL AND ($6::text IS NULL OR password_hash = $6)
            FOR SHARE),
       dead AS (
         DELETE FROM refresh_tokens t USING live WHERE t.user_id = live.id AND t.expires_at <= least($4, signpost_deletion_time())
            AND NOT EXISTS (SELECT FROM refresh_tokens f
                             WHERE f.family_id = t.family_id AND f.expires_at > least($4, signpost_deletion_time())))
       INSERT INTO refresh_tokens (id, family_id, user_id, token_hash, created_at, expires_at)
       SELECT $1, $1, live.id, $3, greatest($4, live.not_before), $5 FROM live RETURNING user_id, created_at`,
      [id, userId, hashOf(refreshToken), now, new Date(now.getTime() + REFRESH_TOKEN_MS), passwordHash],
      'session_begin',
    );
    return begun ? this.#pair(begun, refreshToken) : null;
  }

  /** The next pair for a refresh token; null if it is unknown, expired, revoked or used (which revokes its family). */
  async renew(refreshToken: string): Promise<TokenPair | null> {
    const now = new Date(this.#clock());
    const hash = hashOf(refreshToken);
    const next = newRefreshToken();
    const renewed = await this.#db.transaction(async (queries) => {
      const stored = await lockFamily(queries, hash);
      if (!stored || stored.is_revoked) return null;
      const endMs = stored.begun_at.getTime() + FAMILY_MS;
      const [issued] = await queries.query<Issued>(
        `WITH live AS (
           SELECT id, not_before FROM users WHERE id = $6 AND deleted_at IS NULL AND disabled_at IS NULL),
         used AS (
           UPDATE refresh_tokens SET used_at = $2, replaced_by = $3 FROM live
            WHERE token_hash = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $2 AND user_id = live.id
           RETURNING user_id, family_id, not_before),
         outlived AS (
           DELETE FROM refresh_tokens t USING used
            WHERE t.family_id = used.family_id AND t.id <> t.family_id AND t.expires_at <= least($2, signpost_deletion_time()))
         INSERT INTO refresh_tokens (id, family_id, user_id, token_hash, created_at, expires_at)
         SELECT $3, family_id, user_id, $4, greatest($2, not_before), $5 FROM used WHERE $5 > $2
         RETURNING user_id, created_at`,
        [
          hash,
          now,
          randomUUID(),
          hashOf(next),
          new Date(Math.min(now.getTime() + REFRESH_TOKEN_MS, endMs)),
          stored.user_id,
        ],
        'session_renew',
      );
      if (issued) return issued;
      await queries.execute(
        `UPDATE refresh_tokens SET revoked_at = $2
          WHERE id = $3 AND EXISTS (SELECT FROM refresh_tokens WHERE token_hash = $1 AND used_at IS NOT NULL)`,
        [hash, now, stored.family_id],
        'session_reuse',
      );
      return null;
    });
    return renewed && this.#pair(renewed, next);
  }

  /** Revokes the token's whole family. False if the token does not exist. */
  async end(refreshToken: string): Promise<boolean> {
    const families = await this.#db.execute(
      `UPDATE refresh_tokens root SET revoked_at = coalesce(root.revoked_at, $2)
         FROM refresh_tokens token WHERE token.token_hash = $1 AND root.id = token.family_id`,
      [hashOf(refreshToken), new Date(this.#clock())],
      'session_end',
    );
    return families > 0;
  }

  #pair({ user_id, created_at }: Issued, refreshToken: string): TokenPair {
    return {
      access_token: this.#tokens.issue(user_id, created_at.getTime()),
      refresh_token: refreshToken,
      expires_in: ACCESS_TOKEN_SECONDS,
      token_type: 'Bearer',
    };
  }
}

/**
 * Revokes everything that a user's logins have issued, including access tokens. Requires the lock on the user's row.
 * Uses several statements on purpose: each may wait for a login or a renewal, and only the next statement sees what
 * that issued.
 */
export async function endSessions(queries: Queries, userId: string, now: Date): Promise<void> {
  await queries.execute('UPDATE refresh_tokens SET revoked_at = $2 WHERE revoked_at IS NULL AND user_id = $1', [
    userId,
    now,
  ]);
  await queries.execute('DELETE FROM browser_sessions WHERE user_id = $1', [userId]);
  await queries.execute(
    `UPDATE users SET not_before = greatest(not_before, $2,
        (SELECT max(created_at) + interval '1 millisecond' FROM refresh_tokens WHERE user_id = $1)) WHERE id = $1`,
    [userId, now],
  );
}

/** Locks the family's first row, so that a second caller sees the first one's changes. */
async function lockFamily(queries: Queries, hash: Buffer): Promise<StoredToken | undefined> {
  const [stored] = await queries.query<StoredToken>(
    `SELECT token.user_id, token.family_id, root.revoked_at IS NOT NULL AS is_revoked, root.created_at AS begun_at
       FROM refresh_tokens token JOIN refresh_tokens root ON root.id = token.family_id
      WHERE token.token_hash = $1 FOR UPDATE OF root`,
    [hash],
    'session_lock',
  );
  return stored;
}

function newRefreshToken(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * 256 random bits need no slow hash: they cannot be guessed. Looked up by equality of the hash, never compared here.
 */
function hashOf(refreshToken: string): Buffer {
  return createHash('sha256').update(refreshToken).digest();
}
