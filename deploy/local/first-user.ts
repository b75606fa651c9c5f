import { createFirstUser } from '#api/admin/accounts.ts';
import { systemClock } from '#common/clock.ts';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import { StartupError } from './child.ts';
import type { FirstLogin } from './made-once.ts';

export interface MadeUser {
  readonly isNew: boolean;
  readonly weakness: string | null;
}

/**
 * Creates the first user and an organization if there is no user yet.
 * @returns whether one was created, and a warning when its password is weak.
 * @throws StartupError when the given address or password is rejected.
 */
export async function ensureFirstUser(databaseUrl: string, login: FirstLogin): Promise<MadeUser> {
  const db = new Postgres({
    url: databaseUrl,
    name: 'launcher',
    connectionsMax: 1,
    connectTimeoutMs: patientConnectMs,
  });
  try {
    const user = { email: login.email, password: login.password, name: '', organization: 'My organization' };
    const outcome = await createFirstUser({ db, clock: systemClock }, user);
    switch (outcome.kind) {
      case 'created':
        return { isNew: true, weakness: outcome.weakness };
      case 'exists':
        return { isNew: false, weakness: null };
      case 'refused':
        throw new StartupError(
          `The first user could not be created: ${outcome.message}. Check ADMIN_EMAIL and ADMIN_PASSWORD.`,
        );
    }
  } finally {
    await db.close();
  }
}
