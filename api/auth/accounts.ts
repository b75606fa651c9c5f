/** Accounts of users. */

import { type Note, type Noted, nothingChanged } from '#api/audit-trail.ts';
import type { Clock } from '#common/clock.ts';
import { DAY_MS } from '#common/durations.ts';
import { plainEmail } from '#common/email-address.ts';
import { firstCharacters } from '#common/first-characters.ts';
import { newId } from '#common/ids.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';
import { endSessions } from './sessions.ts';

export interface Account {
  readonly id: string;
  /** Null for an account that logs in only through a provider. */
  readonly password_hash: string | null;
}

/** A person's identity at a provider. */
export interface Identity {
  readonly provider: string;
  /** The provider's id of the person, which does not change with their addresses. */
  readonly subject: string;
  /** Verified addresses as accounts store them, the preferred one first; never empty. */
  readonly emails: readonly [string, ...string[]];
  readonly name: string;
}

/**
 * How long after a login through one provider another provider may be linked by the same address. Later, the mailbox may
 * belong to another person.
 */
const joinMs = 30 * DAY_MS;

/** The account that a provider's identity logs in to. */
interface KnownPerson {
  readonly userId: string;
  readonly noted: Noted;
}

export class Accounts {
  readonly #db: Postgres;
  readonly #clock: Clock;

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** The user with their address; null if the user no longer exists. */
  async byId(userId: string): Promise<(Account & { readonly email: string }) | null> {
    const [account] = await this.#db.query<Account & { readonly email: string }>(
      'SELECT id, password_hash, email FROM users WHERE id = $1 AND deleted_at IS NULL',
      [userId],
      'account_by_id',
    );
    return account ?? null;
  }

  async byEmail(email: string): Promise<Account | null> {
    const [account] = await this.#db.query<Account>(
      'SELECT id, password_hash FROM users WHERE email = $1 AND deleted_at IS NULL',
      [plainEmail(email)],
      'account_by_email',
    );
    return account ?? null;
  }

  /**
   * The identity's account: the account that it logged in to before, whatever its address is now; otherwise
   * the account with one of its verified addresses and no other person of that provider (the preferred address wins);
   * otherwise, if allowed, a new account. An account whose address was unverified loses its password, second factor and
   * logins. Whatever changes is noted in the audit log of each of the person's organizations.
   */
  async ofIdentity(identity: Identity, allowsSignup: boolean, note: Note): Promise<KnownPerson | null> {
    const now = new Date(this.#clock());
    const { provider, subject, emails } = identity;
    return this.#db.transaction(async (queries) => {
      // Two concurrent first logins of one person: the second finds what the first has created.
      await queries.query(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [`identity:${provider}:${subject}`]);
      const [known] = await queries.query<{ user_id: string }>(
        `UPDATE user_identities SET last_login_at = $3, email = $4 WHERE provider = $1 AND subject = $2 RETURNING user_id`,
        [provider, subject, now, emails[0]],
      );
      if (known) return { userId: known.user_id, noted: nothingChanged };
      let userId = await joinable(queries, identity, now);
      if (userId === null && allowsSignup) {
        // A second lookup finds an account that was created with that address concurrently.
        userId = (await this.#signUp(queries, identity)) ?? (await joinable(queries, identity, now));
      }
      if (userId === null) return null;
      const prove = 'SELECT signpost_prove_address($1) AS is_new';
      const [proof] = await queries.query<{ is_new: boolean }>(prove, [userId], 'account_prove');
      // The account may have been created by a person who does not own the address.
      if (proof?.is_new) await endSessions(queries, userId, now);
      await queries.execute(
        `INSERT INTO user_identities (provider, subject, user_id, email, created_at, last_login_at) VALUES ($1, $2, $3, $4, $5, $5)`,
        [provider, subject, userId, emails[0], now],
      );
      return { userId, noted: await note(queries, { organization_id: null, id: userId, actor: userId }) };
    });
  }

  /**
   * Creates a user without a password, and their organization; null if the address belongs to an account that this
   * identity may not use.
   */
  async #signUp(queries: Queries, { emails: [email], name: given }: Identity): Promise<string | null> {
    const nowMs = this.#clock();
    const name = firstCharacters(given, 100);
    const [user] = await queries.query<{ id: string }>(
      `INSERT INTO users (id, email, name) VALUES ($1, $2, $3)
       ON CONFLICT (email) WHERE deleted_at IS NULL DO NOTHING RETURNING id`,
      [newId('usr', nowMs), email, name],
    );
    if (!user) return null;
    const organizationId = newId('org', nowMs);
    await queries.execute('INSERT INTO organizations (id, name) VALUES ($1, $2)', [
      organizationId,
      firstCharacters(name || email, 100),
    ]);
    await queries.execute(`INSERT INTO memberships (user_id, organization_id, role) VALUES ($1, $2, 'owner')`, [
      user.id,
      organizationId,
    ]);
    return user.id;
  }
}

/**
 * The account of a verified address that this identity may use. Its row is locked, so that two identities are linked
 * one after the other.
 */
async function joinable(queries: Queries, identity: Identity, now: Date): Promise<string | null> {
  const [user] = await queries.query<{ id: string }>(
    `SELECT id FROM users WHERE email = ANY ($1::text[]) AND deleted_at IS NULL
      ORDER BY array_position($1::text[], email) LIMIT 1 FOR UPDATE`,
    [identity.emails],
  );
  if (!user) return null;
  const others = await queries.query(
    `SELECT FROM user_identities WHERE user_id = $1
        AND (provider = $2 OR NOT email = ANY ($3::text[]) OR last_login_at < $4) LIMIT 1`,
    [user.id, identity.provider, identity.emails, new Date(now.getTime() - joinMs)],
  );
  return others.length === 0 ? user.id : null;
}
