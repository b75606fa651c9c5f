/** The user of Postgres as which redirectors look up links: it can read these and nothing else. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#common/paths.ts';
import { Postgres } from '#common/postgres.ts';
import { keptPassword } from './kept-password.ts';

const role = 'signpost_redirector';

/**
 * Brings the role up to date in the server that npm start runs. Doing it again changes nothing.
 * @returns the URL of the same database for it.
 */
export async function ensureRedirectorRole(databaseUrl: string, folder: string): Promise<string> {
  const password = keptPassword(join(folder, 'password-redirector'));
  const db = new Postgres({ url: databaseUrl, name: 'launcher', connectionsMax: 1 });
  try {
    // Several statements without values: one transaction for the server.
    await db.execute(readFileSync(join(packageRoot(), 'pg-migrations', 'redirector-role.sql'), 'utf8'));
    // Our own password: letters, digits, - and _.
    await db.execute(`ALTER ROLE ${role} LOGIN PASSWORD '${password}'`);
  } finally {
    await db.close();
  }
  const url = new URL(databaseUrl);
  url.username = role;
  url.password = password;
  return url.href;
}
