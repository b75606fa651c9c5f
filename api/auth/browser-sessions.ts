/**
 * Sessions of the dashboard: one cookie per browser that is never rotated, so that two tabs cannot invalidate each
 * other's. A session ends 24 hours after its last use, 30 days after its login, at logout, when the same browser logs
 * in again, and whenever the account's other logins are revoked. Bounds: at most `sessionsMax` per user; each login
 * deletes up to `purgeMax` expired sessions of all users.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '#common/clock.ts';
import { DAY_MS, MINUTE_MS } from '#common/durations.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { SessionToken } from './session-cookie.ts';

const idleMs = DAY_MS;
export const SESSION_MS = 30 * DAY_MS;
/** A session's expiry is extended at most this often, so that most requests write nothing. */
const slideMs = 5 * MINUTE_MS;
const sessionsMax = 100;
const purgeMax = 100;

export interface BrowserSession {
  readonly created_at: Date;
  readonly expires_at: Date;
}

export class BrowserSessions {
  readonly #db: Postgres;
  readonly #clock: Clock;

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /**
   * Starts a session after a login. Null if the user was deleted or disabled, or the password changed, since it was
   * compared: the user's row is locked, so that a reset is either seen here or sees this session.
   * @param replaced the browser's previous session, which ends. @param organization_id the only one that the session may
   * use.
   */
  async begin(
    userId: string,
    passwordHash: string,
    hash: Buffer,
    {
      replaced = null,
      organization_id = null,
    }: { readonly replaced?: SessionToken | null; readonly organization_id?: string | null },
  ): Promise<BrowserSession | null> {
    const now = new Date(this.#clock());
    const [begun] = await this.#db.query<BrowserSession>(
      `WITH live AS (
         SELECT id, not_before FROM users
          WHERE id = $1 AND deleted_at IS NULL AND disabled_at IS NULL AND password_hash = $2 FOR SHARE),
       expired AS (
         SELECT id FROM browser_sessions WHERE expires_at <= least($5, signpost_deletion_time()) ORDER BY expires_at LIMIT ${purgeMax} FOR UPDATE SKIP LOCKED),
       ended AS (
         DELETE FROM browser_sessions s USING live WHERE s.id IN (
           SELECT id FROM browser_sessions WHERE token_hash = $6
           UNION (SELECT id FROM browser_sessions WHERE user_id = $1 ORDER BY created_at DESC OFFSET ${sessionsMax - 1})
           UNION SELECT id FROM expired))
       INSERT INTO browser_sessions (id, user_id, token_hash, created_at, expires_at, organization_id)
       SELECT $3, live.id, $4, greatest($5, live.not_before), $5::timestamptz + interval '${idleMs} milliseconds', $7 FROM live
       RETURNING created_at, expires_at`,
      [userId, passwordHash, randomUUID(), hash, now, replaced?.hash ?? null, organization_id],
      'browser_session_begin',
    );
    return begun ?? null;
  }

  /** Extends a session that is used. @returns its new expiry. */
  async slide(token: SessionToken, session: BrowserSession): Promise<Date> {
    const nowMs = this.#clock();
    const expiresMs = Math.min(nowMs + idleMs, session.created_at.getTime() + SESSION_MS);
    if (expiresMs - session.expires_at.getTime() < slideMs) return session.expires_at;
    const expires = new Date(expiresMs);
    await this.#db.execute(
      'UPDATE browser_sessions SET expires_at = greatest(expires_at, $2) WHERE token_hash = $1',
      [token.hash, expires],
      'browser_session_slide',
    );
    return expires;
  }

  /** Limits a session to an organization of its user, or ends the limit. False if the user is not a member of it. */
  async choose(id: string, userId: string, organizationId: string | null): Promise<boolean> {
    const changed = await this.#db.execute(
      `UPDATE browser_sessions SET organization_id = $3 WHERE id = $1 AND user_id = $2 AND ($3::text IS NULL
          OR EXISTS (SELECT FROM memberships m JOIN organizations o ON o.id = m.organization_id AND o.deleted_at IS NULL
                      WHERE m.user_id = $2 AND m.organization_id = $3))`,
      [id, userId, organizationId],
      'browser_session_choose',
    );
    return changed > 0;
  }

  async end(token: SessionToken): Promise<void> {
    await this.#db.execute('DELETE FROM browser_sessions WHERE token_hash = $1', [token.hash], 'browser_session_end');
  }
}
