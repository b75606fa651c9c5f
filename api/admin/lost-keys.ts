/**
 * API keys that SECRET_KEY can no longer decrypt, because it was lost or replaced. Such an installation looks healthy but
 * rejects each of these keys, so npm start asks for confirmation before it continues.
 */
import { type ApiKeys, newApiKey } from '#common/api-key.ts';
import type { Queries } from '#common/stores/postgres.ts';

const APPS_AT_ONCE = 500;

interface Row {
  readonly id: string;
  readonly api_key_ciphertext: string;
}

/** The apps in the database whose key can't be decrypted. Costs 10 µs per app. */
export async function appsWithLostKey(db: Queries, apiKeys: ApiKeys): Promise<Row[]> {
  const lost: Row[] = [];
  for (let after = ''; ; ) {
    const rows = await db.query<Row>(
      'SELECT id, api_key_ciphertext FROM apps WHERE id > $1 AND deleted_at IS NULL ORDER BY id LIMIT $2',
      [after, APPS_AT_ONCE],
    );
    lost.push(...rows.filter((row) => !canShow(apiKeys, row)));
    const last = rows.at(-1);
    if (!last || rows.length < APPS_AT_ONCE) return lost;
    after = last.id;
  }
}

function canShow(apiKeys: ApiKeys, { id, api_key_ciphertext }: Row): boolean {
  try {
    apiKeys.show(api_key_ciphertext, id);
    return true;
  } catch {
    return false;
  }
}

/** Gives each of these apps a new key; the old one no longer works. @returns the number of apps. */
export async function replaceLostKeys(db: Queries, apiKeys: ApiKeys, apps: readonly Row[]): Promise<number> {
  let done = 0;
  for (const { id, api_key_ciphertext } of apps) {
    const key = apiKeys.store(newApiKey(), id);
    done += await db.execute(
      `UPDATE apps SET api_key_ciphertext = $3, api_key_hash = $4, api_key_preview = $5, version = version + 1, updated_at = now()
        WHERE id = $1 AND api_key_ciphertext = $2`,
      [id, api_key_ciphertext, key.api_key_ciphertext, key.api_key_hash, key.api_key_preview],
    );
  }
  return done;
}
