import { appsWithLostKey, replaceLostKeys } from '#api/admin/lost-keys.ts';
import { ApiKeys } from '#common/api-key.ts';
import { Encryption, parseSecretKeys } from '#common/encryption.ts';
import { opensSecretCheck, sealedSecretCheck } from '#common/installation-state.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { StartupError } from './child.ts';

export interface SecretCheck {
  readonly db: Postgres;
  readonly secretKey: string;
  /** Where the secret comes from: the setting or the file. */
  readonly source: string;
  /** LOST_API_KEYS: `replace:` and the number of apps. */
  readonly onLost: string;
  readonly note: (line: string) => void;
}

/**
 * Stores what every process compares its SECRET_KEY with (common/installation-state.ts).
 * @throws StartupError when this is another SECRET_KEY, unless LOST_API_KEYS names the number of apps that get new keys.
 */
export async function checkSecret({ db, secretKey, source, onLost, note }: SecretCheck): Promise<void> {
  const keys = parseSecretKeys(secretKey);
  const apiKeys = new ApiKeys(keys);
  const encryption = new Encryption(keys);
  const [row] = await db.query<{ secret_check: string | null }>('SELECT secret_check FROM installation');
  const sealed = row?.secret_check ?? null;
  const isKnown = sealed === null || opensSecretCheck(encryption, sealed);
  const lost = await appsWithLostKey(db, apiKeys);
  const isReplaced = onLost === `replace:${lost.length}`;
  if ((lost.length > 0 || !isKnown) && !isReplaced) {
    const some = lost.slice(0, 3).map(({ id }) => id);
    const names = lost.length === 0 ? '' : ` (${some.join(', ')}${lost.length > 3 ? ', …' : ''})`;
    const apps = `${lost.length} ${lost.length === 1 ? 'app' : 'apps'}${names}`;
    throw new StartupError(
      `The API keys of ${apps} and other secrets can't be decrypted with ${source}: restore the SECRET_KEY of this installation from its backup. If it is lost for good, set LOST_API_KEYS=replace:${lost.length} once: these apps get new keys, and every installed copy of them stops working until it has the new key.`,
    );
  }
  if (lost.length > 0)
    note(`${await replaceLostKeys(db, apiKeys, lost)} apps got new API keys; GET /apps/{id} shows them`);
  if (sealed === null || !isKnown)
    await db.execute('UPDATE installation SET secret_check = $1', [sealedSecretCheck(encryption)]);
}
