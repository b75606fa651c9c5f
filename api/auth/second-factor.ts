/**
 * Codes of an authenticator (TOTP, RFC 6238: SHA-1, six digits, 30 s) and recovery codes.
 *
 *   none → pending: a secret was issued → confirmed: a code proved that the authenticator has it → none: disabled.
 *
 * A code is valid within one step before and after its own, and only once: the step of the last code is stored. A
 * recovery code has 80 random bits and is deleted when it is used.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import type { Note, Noted } from '#api/audit-trail.ts';
import type { Clock } from '#common/clock.ts';
import type { Encryption } from '#common/encryption.ts';
import type { Postgres, Queries } from '#common/stores/postgres.ts';

const SECRET_BYTES = 20;
const STEPS_AROUND = 1;
const RECOVERY_CODES = 10;
const RECOVERY_BYTES = 10;

export interface PendingFactor {
  /** Base32, for typing. */
  readonly secret: string;
  /** The same as a URI for a QR code. */
  readonly otpauth_url: string;
}

export class SecondFactor {
  readonly #db: Postgres;
  readonly #encryption: Encryption;
  readonly #clock: Clock;

  constructor(db: Postgres, encryption: Encryption, clock: Clock) {
    this.#db = db;
    this.#encryption = encryption;
    this.#clock = clock;
  }

  async isEnabled(userId: string): Promise<boolean> {
    const enabled = 'SELECT FROM user_totp WHERE user_id = $1 AND confirmed_at IS NOT NULL';
    return (await this.#db.query(enabled, [userId], 'totp_enabled')).length > 0;
  }

  /** A new secret, which replaces an unconfirmed one; null if a second factor is already confirmed. */
  async begin(
    userId: string,
    email: string,
    note: Note,
  ): Promise<{ readonly pending: PendingFactor; readonly noted: Noted } | null> {
    const secret = new Secret({ buffer: new Uint8Array(randomBytes(SECRET_BYTES)).buffer });
    const sealed = this.#encryption.encrypt(secret.base32, contextOf(userId));
    const pending = { secret: secret.base32, otpauth_url: totpOf(secret.base32, email).toString() };
    return this.#db.transaction(async (queries) => {
      const begun = await queries.execute(
        `INSERT INTO user_totp AS t (user_id, secret_ciphertext, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (user_id) DO UPDATE SET secret_ciphertext = EXCLUDED.secret_ciphertext, created_at = EXCLUDED.created_at
           WHERE t.confirmed_at IS NULL`,
        [userId, sealed, new Date(this.#clock())],
      );
      return begun === 0 ? null : { pending, noted: await note(queries, { organization_id: null, id: userId }) };
    });
  }

  /** Enables the factor; null if the code does not match the secret, or there is nothing to confirm. */
  async confirm(
    userId: string,
    code: string,
    note: Note,
  ): Promise<{ readonly recovery_codes: readonly string[]; readonly noted: Noted } | null> {
    return this.#db.transaction(async (queries) => {
      if (!(await this.#takeCode(queries, userId, code, false))) return null;
      await queries.execute('UPDATE user_totp SET confirmed_at = $2 WHERE user_id = $1', [
        userId,
        new Date(this.#clock()),
      ]);
      const codes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode);
      await queries.execute('DELETE FROM recovery_codes WHERE user_id = $1', [userId]);
      await queries.execute('INSERT INTO recovery_codes (user_id, code_hash) SELECT $1, unnest($2::bytea[])', [
        userId,
        codes.map(hashOf),
      ]);
      return { recovery_codes: codes, noted: await note(queries, { organization_id: null, id: userId }) };
    });
  }

  /** Accepts a code of the authenticator or a recovery code. Of concurrent calls with the same code, one succeeds. */
  async take(userId: string, code: string): Promise<boolean> {
    if (await this.#takeCode(this.#db, userId, code, true)) return true;
    const used = 'DELETE FROM recovery_codes WHERE user_id = $1 AND code_hash = $2';
    return (await this.#db.execute(used, [userId, hashOf(code)])) > 0;
  }

  disable(userId: string, note: Note): Promise<Noted> {
    return this.#db.transaction(async (queries) => {
      await removeFactor(queries, userId);
      return note(queries, { organization_id: null, id: userId });
    });
  }

  async #takeCode(queries: Queries, userId: string, code: string, isConfirmed: boolean): Promise<boolean> {
    const [row] = await queries.query<{ secret_ciphertext: string }>(
      'SELECT secret_ciphertext FROM user_totp WHERE user_id = $1 AND (confirmed_at IS NOT NULL) = $2',
      [userId, isConfirmed],
    );
    if (!row || !/^\d{6}$/.test(code)) return false;
    const totp = totpOf(this.#encryption.decrypt(row.secret_ciphertext, contextOf(userId)), '');
    const timestamp = this.#clock();
    const delta = totp.validate({ token: code, timestamp, window: STEPS_AROUND });
    if (delta === null) return false;
    const step = totp.counter({ timestamp }) + delta;
    const taken = 'UPDATE user_totp SET last_step = $2 WHERE user_id = $1 AND last_step < $2';
    return (await queries.execute(taken, [userId, step])) > 0;
  }
}

/** After this, the user logs in without a code. */
export async function removeFactor(queries: Queries, userId: string): Promise<number> {
  await queries.execute('DELETE FROM recovery_codes WHERE user_id = $1', [userId]);
  return queries.execute('DELETE FROM user_totp WHERE user_id = $1', [userId]);
}

/** The encryption context of a secret, so that a secret copied to another user's row cannot be decrypted. */
export function contextOf(userId: string): string {
  return `totp:${userId}`;
}

function totpOf(secret: string, label: string): TOTP {
  return new TOTP({
    issuer: 'Signpost',
    label,
    secret: Secret.fromBase32(secret),
    algorithm: 'SHA1',
    digits: 6,
    period: 30,
  });
}

/** Shown as `abcd-efgh-…`. Dashes, spaces and case are ignored on input. */
function newRecoveryCode(): string {
  const text = new Secret({ buffer: new Uint8Array(randomBytes(RECOVERY_BYTES)).buffer }).base32.toLowerCase();
  return text.replaceAll(/(.{4})(?=.)/g, '$1-');
}

function hashOf(code: string): Buffer {
  return createHash('sha256').update(code.toLowerCase().replaceAll(/[\s-]/g, '')).digest();
}
