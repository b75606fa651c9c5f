/** The database roles of Signpost's processes, in the Postgres that a test run shares. */
import type { ProcessRoleName } from '#pg-migrations/role-rights.ts';

export const rolePasswordForTest = 'role-password-for-tests';

export function urlAsRole(url: string, role: ProcessRoleName): string {
  const own = new URL(url);
  own.username = role;
  own.password = rolePasswordForTest;
  return own.href;
}
