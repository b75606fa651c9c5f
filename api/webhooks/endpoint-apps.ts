import { absent } from '#api/access.ts';
import type { UserCaller } from '#api/route.ts';
import { forbidden, type Rejection } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

/** Null if all apps belong to the organization and the caller may use them. */
export async function refuseApps(
  tenant: TenantQueries,
  caller: UserCaller,
  appIds: readonly string[] | null,
): Promise<Rejection | null> {
  if (appIds === null) {
    const isLimited = caller.key !== undefined && caller.key.app_ids !== null;
    return isLimited ? forbidden('This server key is limited to some apps: name them in app_ids.') : null;
  }
  const sql = 'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = ANY ($2) AND deleted_at IS NULL';
  const known = new Set((await tenant.query<{ id: string }>(sql, [appIds])).map(({ id }) => id));
  const missing = appIds.find((id) => !known.has(id));
  return missing === undefined ? null : absent(tenant, 'app', missing);
}
