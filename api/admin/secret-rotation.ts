/** Re-encrypts stored secrets after a new key was added at the front of SECRET_KEY. */
import { contextOf } from '#api/auth/second-factor.ts';
import { branchKeyContext } from '#api/imports/import.ts';
import { mailContext } from '#api/mail-outbox.ts';
import type { ApiKeys } from '#common/api-key.ts';
import { type Encryption, keyIdOf } from '#common/encryption.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { webhookSecretContext } from '#common/webhooks/webhook-secret.ts';

const ROWS_AT_ONCE = 200;

interface Row {
  readonly id: string;
  readonly api_key_ciphertext: string;
}

/**
 * Re-encrypts and rehashes every API key that is not stored under the newest key. The API keys do not change, so no app
 * notices. A key that changes in the meantime is skipped: it already uses the newest key. Safe to repeat.
 * @returns the number of re-encrypted keys.
 * @throws when a key is encrypted with a key that SECRET_KEY no longer contains.
 */
export async function reencryptApiKeys(db: Postgres, apiKeys: ApiKeys): Promise<number> {
  let done = 0;
  let after = '';
  for (;;) {
    const rows = await db.query<Row>('SELECT id, api_key_ciphertext FROM apps WHERE id > $1 ORDER BY id LIMIT $2', [
      after,
      ROWS_AT_ONCE,
    ]);
    for (const row of rows) {
      if (!apiKeys.isOutdated(row.api_key_ciphertext)) continue;
      const fresh = apiKeys.store(apiKeys.show(row.api_key_ciphertext, row.id), row.id);
      done += await db.execute(
        'UPDATE apps SET api_key_ciphertext = $3, api_key_hash = $4 WHERE id = $1 AND api_key_ciphertext = $2',
        [row.id, row.api_key_ciphertext, fresh.api_key_ciphertext, fresh.api_key_hash],
      );
    }
    const last = rows.at(-1);
    if (!last || rows.length < ROWS_AT_ONCE) return done;
    after = last.id;
  }
}

/** Same for the secrets of second factors. One that is set up in the meantime already uses the newest key. */
export async function reencryptSecondFactors(db: Postgres, encryption: Encryption): Promise<number> {
  let done = 0;
  let after = '';
  for (;;) {
    const rows = await db.query<{ user_id: string; secret_ciphertext: string }>(
      'SELECT user_id, secret_ciphertext FROM user_totp WHERE user_id > $1 ORDER BY user_id LIMIT $2',
      [after, ROWS_AT_ONCE],
    );
    for (const { user_id, secret_ciphertext } of rows) {
      if (keyIdOf(secret_ciphertext) === encryption.newestId) continue;
      const fresh = encryption.encrypt(encryption.decrypt(secret_ciphertext, contextOf(user_id)), contextOf(user_id));
      done += await db.execute(
        'UPDATE user_totp SET secret_ciphertext = $3 WHERE user_id = $1 AND secret_ciphertext = $2',
        [user_id, secret_ciphertext, fresh],
      );
    }
    const last = rows.at(-1);
    if (!last || rows.length < ROWS_AT_ONCE) return done;
    after = last.user_id;
  }
}

/** Same for the secrets of webhooks. One that is rotated in the meantime already uses the newest key. */
export async function reencryptWebhookSecrets(db: Postgres, encryption: Encryption): Promise<number> {
  let done = 0;
  for (const column of ['secret_ciphertext', 'previous_secret_ciphertext'])
    done += await reencryptColumn(db, encryption, ['webhook_endpoints', column], webhookSecretContext);
  return done;
}

/** Same for the Branch keys of imports whose dry run has not ended. */
export function reencryptImportKeys(db: Postgres, encryption: Encryption): Promise<number> {
  return reencryptColumn(db, encryption, ['imports', 'branch_key_ciphertext'], branchKeyContext);
}

/** Same for mail in the outbox. */
export function reencryptMail(db: Postgres, encryption: Encryption): Promise<number> {
  return reencryptColumn(db, encryption, ['mails', 'content_ciphertext'], mailContext);
}

async function reencryptColumn(
  db: Postgres,
  encryption: Encryption,
  [table, column]: readonly [table: string, column: string],
  contextFor: (id: string) => string,
): Promise<number> {
  let done = 0;
  let after = '';
  for (;;) {
    const rows = await db.query<{ id: string; sealed: string }>(
      `SELECT id, ${column} AS sealed FROM ${table} WHERE id > $1 AND ${column} IS NOT NULL ORDER BY id LIMIT $2`,
      [after, ROWS_AT_ONCE],
    );
    for (const { id, sealed } of rows) {
      if (keyIdOf(sealed) === encryption.newestId) continue;
      const context = contextFor(id);
      const fresh = encryption.encrypt(encryption.decrypt(sealed, context), context);
      const sql = `UPDATE ${table} SET ${column} = $3 WHERE id = $1 AND ${column} = $2`;
      done += await db.execute(sql, [id, sealed, fresh]);
    }
    const last = rows.at(-1);
    if (!last || rows.length < ROWS_AT_ONCE) return done;
    after = last.id;
  }
}
