import { createFirstUser } from '#api/admin/accounts.ts';
import { systemClock } from '#common/clock.ts';
import { Postgres } from '#common/postgres.ts';
import { StartupError } from './child.ts';
import type { FirstLogin } from './made-once.ts';

/**
 * Makes the first user and an organization when there is no user yet.
 * @returns whether one was made.
 * @throws StartupError when the address or the password given is refused.
 */
export async function ensureFirstUser(databaseUrl: string, login: FirstLogin): Promise<boolean> {
  const db = new Postgres({ url: databaseUrl, name: 'launcher', connectionsMax: 1 });
  try {
    const user = { email: login.email, password: login.password, name: '', organization: 'My organization' };
    const outcome = await createFirstUser({ db, clock: systemClock }, user);
    switch (outcome.kind) {
      case 'created':
        return true;
      case 'exists':
        return false;
      case 'refused':
        throw new StartupError(`The first user could not be made: ${outcome.message} (ADMIN_EMAIL, ADMIN_PASSWORD).`);
    }
  } finally {
    await db.close();
  }
}
