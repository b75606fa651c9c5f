/** Logins through a provider that were started and have not come back: good once, for 10 minutes. */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '#common/clock.ts';
import type { Postgres } from '#common/postgres.ts';
import type { LoginAttempt } from './oauth-client.ts';
import type { ProviderName } from './oauth-provider.ts';

export const ATTEMPT_SECONDS = 600;

export class OAuthAttempts {
  readonly #db: Postgres;
  readonly #clock: Clock;

  constructor(db: Postgres, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /** A new attempt: 256 random bits of state, and a PKCE verifier that never leaves the server. Clears expired ones. */
  async begin(provider: ProviderName, redirectUri: string, bindingHash: Buffer | null): Promise<LoginAttempt> {
    const attempt = { state: random256(), verifier: random256(), redirectUri };
    const now = new Date(this.#clock());
    await this.#db.query(
      `WITH expired AS (DELETE FROM oauth_states WHERE expires_at <= $5)
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
   * Takes the attempt out, so that of any number of callbacks one gets it. A state of another provider, or of another browser, is not
   * taken. @param shown hashes of what the caller shows of having begun it.
   */
  async take(provider: ProviderName, state: string, shown: readonly Buffer[]): Promise<LoginAttempt | null> {
    const [row] = await this.#db.query<{ verifier: string; redirect_uri: string; expires_at: Date }>(
      `DELETE FROM oauth_states WHERE state_hash = $1 AND provider = $2
          AND (binding_hash IS NULL OR binding_hash = ANY ($3::bytea[])) RETURNING verifier, redirect_uri, expires_at`,
      [hashOf(state), provider, shown],
    );
    if (!row || row.expires_at.getTime() <= this.#clock()) return null;
    return { state, verifier: row.verifier, redirectUri: row.redirect_uri };
  }
}

function random256(): string {
  return randomBytes(32).toString('base64url');
}

function hashOf(state: string): Buffer {
  return createHash('sha256').update(state).digest();
}
