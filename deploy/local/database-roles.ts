/** The Postgres users of Signpost's processes, in the server that npm start runs. */
import { join } from 'node:path';
import { Postgres, patientConnectMs } from '#common/stores/postgres.ts';
import type { ProcessRoleName } from '#pg-migrations/role-rights.ts';
import type { DatabaseUrls } from './launch-plan.ts';
import { storedPassword } from './stored-password.ts';

const roleOf: Record<keyof DatabaseUrls, ProcessRoleName> = {
  api: 'signpost_api_process',
  gateway: 'signpost_gateway',
  ingest: 'signpost_ingest',
  redirector: 'signpost_redirector',
  webhooks: 'signpost_webhooks',
};

/**
 * Creates missing roles, and sets the passwords stored in the folder. Migrations grant their privileges. It is
 * idempotent. @returns the URL of the same database for each role.
 */
export async function ensureDatabaseRoles(ownerUrl: string, folder: string): Promise<DatabaseUrls> {
  const db = new Postgres({ url: ownerUrl, name: 'launcher', connectionsMax: 1, connectTimeoutMs: patientConnectMs });
  try {
    const urlOf = async (process: keyof DatabaseUrls): Promise<string> => {
      const role = roleOf[process];
      const password = storedPassword(join(folder, `password-${process}`));
      await ensureRole(db, role, password);
      const url = new URL(ownerUrl);
      url.username = role;
      url.password = password;
      return url.href;
    };
    return {
      api: await urlOf('api'),
      gateway: await urlOf('gateway'),
      ingest: await urlOf('ingest'),
      redirector: await urlOf('redirector'),
      webhooks: await urlOf('webhooks'),
    };
  } finally {
    await db.close();
  }
}

/** @param password a generated password of letters, digits, - and _. */
export async function ensureRole(db: Postgres, role: ProcessRoleName, password: string): Promise<void> {
  const known = await db.query('SELECT FROM pg_roles WHERE rolname = $1', [role]);
  const verb = known.length > 0 ? 'ALTER' : 'CREATE';
  await db.execute(`${verb} ROLE ${role} LOGIN NOINHERIT PASSWORD '${password}'`);
}
