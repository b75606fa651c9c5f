import { appsWithLostKey, replaceLostKeys } from '#api/admin/lost-keys.ts';
import { ApiKeys } from '#common/api-key.ts';
import { parseSecretKeys } from '#common/encryption.ts';
import type { Config } from '#common/process/settings.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { StartupError } from './child.ts';

export interface SecretCheck {
  readonly databaseUrl: string;
  readonly secretKey: string;
  /** Where the secret comes from: the setting or the file. */
  readonly source: string;
  readonly onLost: Config['LOST_API_KEYS'];
  readonly note: (line: string) => void;
}

/** @throws StartupError when API keys in Postgres can't be decrypted and LOST_API_KEYS is not set to replace them. */
export async function checkSecret({ databaseUrl, secretKey, source, onLost, note }: SecretCheck): Promise<void> {
  const apiKeys = new ApiKeys(parseSecretKeys(secretKey));
  const db = new Postgres({
    url: databaseUrl,
    name: 'launcher',
    connectionsMax: 1,
    connectTimeoutMs: patientConnectMs,
  });
  try {
    const lost = await appsWithLostKey(db, apiKeys);
    if (lost.length === 0) return;
    if (onLost === 'replace') {
      note(`${await replaceLostKeys(db, apiKeys, lost)} apps got new API keys; GET /apps/{id} shows them`);
      return;
    }
    const some = lost.slice(0, 3).map(({ id }) => id);
    const apps = `${lost.length} ${lost.length === 1 ? 'app' : 'apps'} (${some.join(', ')}${lost.length > 3 ? ', …' : ''})`;
    throw new StartupError(
      `The API keys of ${apps} can't be decrypted with ${source}: restore the SECRET_KEY of this installation from its backup, or set LOST_API_KEYS=replace once to give these apps new keys.`,
    );
  } finally {
    await db.close();
  }
}
