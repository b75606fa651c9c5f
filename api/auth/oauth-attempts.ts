/** Started, unfinished logins through a provider: valid once, for 10 minutes. */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '#common/clock.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import type { LoginAttempt } from './oauth-client.ts';
import type { ProviderName } from './oauth-provider.ts';

export const ATTEMPT_SECONDS = 600;

/** An attempt whose callback has arrived. */
export interface TakenAttempt extends LoginAttempt {
  /**
   * The provider's identity, if only the second factor's code was missing; null if the provider has not been called
   * yet.
   */
  readonly userId: string | null;
  readonly expiresAt: Date;
  readonly bindingHash: Buffer | null;
}

interface Row {
  readonly verifier: string;
  readonly redirect_uri: string;
  readonly expires_at: Date;
  readonly binding_hash: Buffer | null;
  readonly user_id: string | null;
}

export class OAuthAttempts {
  readonly #db: Postgres;
  readonly #clock: Clock;

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /**
   * Starts an attempt with 256 random bits of state and a PKCE verifier that never leaves the server. Deletes expired
   * attempts.
   */
  async begin(provider: ProviderName, redirectUri: string, bindingHash: Buffer | null): Promise<LoginAttempt> {
    const attempt = { state: random256(), verifier: random256(), redirectUri };
    const now = new Date(this.#clock());
    await this.#db.query(
      `WITH expired AS (DELETE FROM oauth_states WHERE expires_at <= least($5, signpost_deletion_time()))
       INSERT INTO oauth_states (state_hash, provider, verifier, redirect_uri, created_at, expires_at, binding_hash)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      [
        hashOf(attempt.state),
        provider,
        attempt.verifier,
        redirectUri,
        now,
        new Date(now.getTime() + ATTEMPT_SECONDS * 1000),
        bindingHash,
      ],
    );
    return attempt;
  }

  /**
   * Removes the attempt, so that only one of several callbacks gets it. Rejects a state of another provider or another
   * browser, or one that was put back with another code. @param shown hashes of the caller's proofs that it started the
   * attempt. @param mustShow whether an attempt without a binding is rejected too.
   */
  async take(
    { provider, state, code }: { readonly provider: ProviderName; readonly state: string; readonly code: string },
    shown: readonly Buffer[],
    mustShow: boolean,
  ): Promise<TakenAttempt | null> {
    const [row] = await this.#db.query<Row>(
      `DELETE FROM oauth_states WHERE state_hash = $1 AND provider = $2
          AND (binding_hash IS NULL AND NOT $5 OR binding_hash = ANY ($3::bytea[])) AND (code_hash IS NULL OR code_hash = $4)
        RETURNING verifier, redirect_uri, expires_at, binding_hash, user_id`,
      [hashOf(state), provider, shown, hashOf(code), mustShow],
    );
    if (!row || row.expires_at.getTime() <= this.#clock()) return null;
    const { verifier, redirect_uri: redirectUri, expires_at: expiresAt, binding_hash, user_id: userId } = row;
    return { state, verifier, redirectUri, expiresAt, bindingHash: binding_hash, userId };
  }

  /**
   * Puts back an attempt after the provider has identified the user, so that the same call can complete it with a code
   * until it expires.
   */
  async putBack(provider: ProviderName, attempt: TakenAttempt, code: string, userId: string): Promise<void> {
    await this.#db.query(
      `INSERT INTO oauth_states (state_hash, provider, verifier, redirect_uri, created_at, expires_at, binding_hash, user_id, code_hash)
       VALUES ($1, $2, '', $3, $4, $5, $6, $7, $8)`,
      [
        hashOf(attempt.state),
        provider,
        attempt.redirectUri,
        new Date(this.#clock()),
        attempt.expiresAt,
        attempt.bindingHash,
        userId,
        hashOf(code),
      ],
    );
  }
}

function random256(): string {
  return randomBytes(32).toString('base64url');
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
