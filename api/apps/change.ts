/** The order of steps of every app change; common/links/app-snapshot.ts explains it. */
import { refuseWrite, tenantOf } from '#api/access.ts';
import type { Noted } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { ChangeRequest } from '#api/route.ts';
import { Rejection, unavailable } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { type AppRow, findApp } from './app.ts';

export interface AppChange {
  readonly before: AppRow;
  readonly after: AppRow;
  readonly noted: Noted;
}

/**
 * Changes one of the caller's apps: locks it, calls `write` (which must set `version = version + 1`), invalidates every
 * copy of the old version, commits, and notifies the redirectors. Rejected while Redis is unavailable.
 */
export async function changeApp(
  { tenancy, appSnapshots, deliverChanges }: ApiDeps,
  { caller, note }: ChangeRequest,
  id: string,
  write: (tenant: TenantQueries, before: AppRow) => Promise<AppRow | Rejection>,
): Promise<AppChange | Rejection> {
  let isTold = true;
  let change: AppChange | Rejection;
  try {
    change = await tenancy.within(tenantOf(caller), async (tenant) => {
      const before = await findApp(tenant, id, true);
      if (before instanceof Rejection) return before;
      const denied = refuseWrite(caller, before.organization_id);
      if (denied) return denied;
      const after = await write(tenant, before);
      if (after instanceof Rejection) return after;
      if (after.version !== before.version + 1) throw new Error('a change of an app did not raise its version by one');
      const noted = await note(tenant, before);
      isTold = false;
      await appSnapshots.raise(id, after.version);
      isTold = true;
      return { before, after, noted };
    });
  } catch (error) {
    if (!isTold) return unavailable();
    throw error;
  }
  if (change instanceof Rejection) return change;
  const { before, after } = change;
  // A failure of Redis after this point has no effect: the raised version has already invalidated the copies.
  await appSnapshots.settle(before.api_key_hash, id, after.version).catch(() => undefined);
  await deliverChanges();
  return change;
}
