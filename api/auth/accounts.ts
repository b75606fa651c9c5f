/** The users that may log in, as authentication sees them. */
import type { Clock } from '#common/clock.ts';
import { newId } from '#common/ids.ts';
import type { Postgres } from '#common/postgres.ts';

export interface Account {
  readonly id: string;
  /** Null for an account that logs in through a provider only. */
  readonly password_hash: string | null;
}

/** Who a provider says somebody is. */
export interface Identity {
  /** Verified addresses in lower case, the preferred one first; never empty. */
  readonly emails: readonly [string, ...string[]];
  readonly name: string;
}

/** An address as accounts keep it. */
export function plainEmail(text: string): string {
  return text.trim().toLowerCase();
}

export class Accounts {
  readonly #db: Postgres;
  readonly #clock: Clock;

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  async byEmail(email: string): Promise<Account | null> {
    const [account] = await this.#db.query<Account>(
      'SELECT id, password_hash FROM users WHERE email = $1 AND deleted_at IS NULL',
      [plainEmail(email)],
      'account_by_email',
    );
    return account ?? null;
  }

  /** The account that has one of the identity's verified addresses; the preferred one wins. */
  async byIdentity(identity: Identity): Promise<Account | null> {
    const [account] = await this.#db.query<Account>(
      `SELECT id, password_hash FROM users WHERE email = ANY ($1::text[]) AND deleted_at IS NULL
        ORDER BY array_position($1::text[], email) LIMIT 1`,
      [identity.emails],
      'account_by_identity',
    );
    return account ?? null;
  }

  /** A user without a password, and an organization of which that user is the owner. Safe to call twice at once. */
  async signUp(identity: Identity): Promise<Account> {
    const [email] = identity.emails;
    const now = this.#clock();
    const name = identity.name.slice(0, 100);
    return this.#db.transaction(async (queries) => {
      const [account] = await queries.query<Account>(
        `INSERT INTO users (id, email, name) VALUES ($1, $2, $3)
         ON CONFLICT (email) WHERE deleted_at IS NULL DO UPDATE SET email = EXCLUDED.email
         RETURNING id, password_hash`,
        [newId('usr', now), email, name],
      );
      if (!account) throw new Error('an upsert returned no row');
      await queries.execute(
        `WITH organization AS (
           INSERT INTO organizations (id, name) SELECT $2, $3
            WHERE NOT EXISTS (SELECT FROM memberships WHERE user_id = $1) RETURNING id)
         INSERT INTO memberships (user_id, organization_id, role) SELECT $1, id, 'owner' FROM organization`,
        [account.id, newId('org', now), (name || email).slice(0, 100)],
      );
      return account;
    });
  }
}
