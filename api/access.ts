/** A user's access: read in their organizations, write where they are not a viewer. */
import { forbidden, notFound, type Rejection } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import type { UserCaller } from './route.ts';

/** Ids of every organization to which the user belongs. */
export function organizationsOf(caller: UserCaller): string[] {
  return caller.memberships.map((membership) => membership.organization_id);
}

export const onlyViewing = () => forbidden('Viewers have read-only access. Ask an owner for the member role.');

/** Null if the user may change things in this organization. */
export function refuseWrite(caller: UserCaller, organizationId: string): Rejection | null {
  const membership = caller.memberships.find((one) => one.organization_id === organizationId);
  if (!membership) return forbidden('This belongs to an organization that you are not a member of.');
  return membership.role === 'viewer' ? onlyViewing() : null;
}

/** Why the caller can't access an app or a link: it belongs to another organization (403), or does not exist (404). */
export async function absent(tenant: TenantQueries, kind: 'app' | 'link', id: string): Promise<Rejection> {
  const owner = isId(kind === 'app' ? 'app' : 'lnk', id) ? await tenant.ownerOf(kind, id) : null;
  if (owner !== null) return forbidden(`This ${kind} belongs to another organization.`);
  return notFound(`There is no ${kind} with this id.`);
}
