/**
 * What a caller may access: people read in their organizations, write where they are not a viewer, and manage keys where
 * they are owners. A server key has the rights of a member in its organization, limited by its scopes and apps.
 */
import { forbidden, invalid, notFound, type Rejection } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import type { LinkOwner } from '#common/links/link-creation.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Tenancy, TenantQueries, TenantScope } from '#common/stores/tenancy.ts';
import type { UserCaller } from './route.ts';

/** Ids of every organization to which the caller belongs. */
export function organizationsOf(caller: UserCaller): string[] {
  return caller.memberships.map((membership) => membership.organization_id);
}

/** A string that identifies what the caller may read, for cache keys. */
export function rightsOf(caller: UserCaller): string {
  return JSON.stringify([organizationsOf(caller).sort(), caller.key?.app_ids ?? null]);
}

/** The rows that the caller may access. `organizationIds` narrows them to these organizations of the caller. */
export function tenantOf(
  caller: UserCaller,
  organizationIds: readonly string[] = organizationsOf(caller),
): TenantScope {
  return { organizationIds, appIds: caller.key?.app_ids ?? null };
}

export const onlyViewing = () => forbidden('Viewers have read-only access. Ask an owner for the member role.');

const notYours = () => forbidden('This belongs to an organization of which you are not a member.');

/** Null if the user may change things in this organization. */
export function refuseWrite(caller: UserCaller, organizationId: string): Rejection | null {
  const membership = caller.memberships.find((one) => one.organization_id === organizationId);
  if (!membership) return notYours();
  return membership.role === 'viewer' ? onlyViewing() : null;
}

/** Objects that belong to an organization rather than to an app, by the prefix of their ids. */
const ofOrganizations = {
  inv: { table: 'invitations', name: 'invitation' },
  key: { table: 'server_keys', name: 'server key' },
  pbk: { table: 'webhook_endpoints', name: 'postback' },
  shp: { table: 'shared_pages', name: 'shared page' },
  utm: { table: 'utm_templates', name: 'UTM template' },
  viw: { table: 'saved_views', name: 'view' },
  whk: { table: 'webhook_endpoints', name: 'webhook' },
} as const;

type OfOrganization = keyof typeof ofOrganizations;

export const unknownId = (kind: OfOrganization) => notFound(`There is no ${ofOrganizations[kind].name} with this id.`);

/**
 * The organization to which the object belongs, if the caller may read, write or manage there; otherwise a 403 or 404.
 */
export async function ownerOf(
  db: Queries,
  caller: UserCaller,
  { kind, id, to }: { readonly kind: OfOrganization; readonly id: string; readonly to: 'read' | 'write' | 'manage' },
): Promise<string | Rejection> {
  const sql = `SELECT organization_id FROM ${ofOrganizations[kind].table} WHERE id = $1`;
  const [found] = isId(kind, id) ? await db.query<{ organization_id: string }>(sql, [id]) : [];
  if (!found) return unknownId(kind);
  const { organization_id } = found;
  const refused = { read: refuseReading, write: refuseWrite, manage: refuseManaging }[to](caller, organization_id);
  return refused ?? organization_id;
}

function refuseReading(caller: UserCaller, organizationId: string): Rejection | null {
  return organizationsOf(caller).includes(organizationId) ? null : notYours();
}

/**
 * Rejects a server key that is limited to some apps, because `what` belongs to the whole organization; otherwise null.
 */
export function refuseLimitedKey(caller: UserCaller, what: 'Costs' | 'Views'): Rejection | null {
  if (!caller.key?.app_ids) return null;
  return forbidden(`${what} belong to the whole organization, and this server key is limited to some of its apps.`);
}

/** Null if the user may manage keys in this organization. */
export function refuseManaging(caller: UserCaller, organizationId: string): Rejection | null {
  const membership = caller.memberships.find((one) => one.organization_id === organizationId);
  if (!membership) return notYours();
  return membership.role === 'owner' ? null : forbidden('Only owners of the organization may do this.');
}

/** The requested organization, or else all that the user owns; a rejection if there is none. */
export async function managedOrganizations(
  db: Queries,
  caller: UserCaller,
  asked: string | undefined,
): Promise<readonly string[] | Rejection> {
  if (asked === undefined) {
    const owned = caller.memberships.filter(({ role }) => role === 'owner');
    if (owned.length === 0) return forbidden('Only owners of an organization may do this.');
    return owned.map(({ organization_id }) => organization_id);
  }
  const refused = (await refuseOrganization(db, caller, asked)) ?? refuseManaging(caller, asked);
  return refused ?? [asked];
}

/** The requested organization, or the user's only one. */
export async function chooseOrganization(
  db: Queries,
  caller: UserCaller,
  asked: string | undefined,
): Promise<string | Rejection> {
  const [only, another] = caller.memberships;
  if (asked === undefined) {
    if (only && !another) return only.organization_id;
    const why = only ? 'you belong to more than one organization' : 'you belong to no organization';
    return invalid('organization_id', `is required: ${why}`);
  }
  return (await refuseOrganization(db, caller, asked)) ?? asked;
}

/** The requested organization, or else all of the caller's. */
export async function readableOrganizations(
  db: Queries,
  caller: UserCaller,
  asked: string | undefined,
): Promise<readonly string[] | Rejection> {
  if (asked === undefined) return organizationsOf(caller);
  return (await refuseOrganization(db, caller, asked)) ?? [asked];
}

/** Null for one of the caller's organizations; otherwise 403 for another organization, or 404. */
export async function refuseOrganization(db: Queries, caller: UserCaller, asked: string): Promise<Rejection | null> {
  if (caller.memberships.some((one) => one.organization_id === asked)) return null;
  const exists =
    isId('org', asked) &&
    (await db.query('SELECT FROM organizations WHERE id = $1 AND deleted_at IS NULL', [asked])).length > 0;
  return exists
    ? forbidden('You are not a member of this organization.')
    : notFound('There is no organization with this id.');
}

/** Why the caller can't access an app or a link: not theirs, or not the key's (403), or it does not exist (404). */
export async function absent(tenant: TenantQueries, kind: 'app' | 'link', id: string): Promise<Rejection> {
  const owner = isId(kind === 'app' ? 'app' : 'lnk', id) ? await tenant.ownerOf(kind, id) : null;
  if (owner === null) return notFound(`There is no ${kind} with this id.`);
  const isOurs = tenant.scope.organizationIds.includes(owner);
  return forbidden(
    isOurs ? `This server key has no access to this ${kind}.` : `This ${kind} belongs to another organization.`,
  );
}

/** Null if the filter names no app, or an app that the caller can access. */
export async function refuseApp(tenant: TenantQueries, appId: string | undefined): Promise<Rejection | null> {
  if (appId === undefined) return null;
  const sql = 'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL';
  const [app] = await tenant.query(sql, [appId]);
  return app ? null : absent(tenant, 'app', appId);
}

const anyOfMine = `SELECT id AS app_id, organization_id FROM apps
  WHERE organization_id = ANY ($1) AND deleted_at IS NULL AND ($2::text IS NULL OR id = $2) LIMIT 2`;

/** The requested app, or the only one that the caller can see. */
export function findOwner(
  tenancy: Tenancy,
  caller: UserCaller,
  appId: string | undefined,
): Promise<LinkOwner | Rejection> {
  return tenancy.within(tenantOf(caller), async (tenant) => {
    const [app, another] = await tenant.query<LinkOwner>(anyOfMine, [appId ?? null]);
    if (appId !== undefined) return app ?? absent(tenant, 'app', appId);
    if (!app) return invalid('app_id', 'is required: there is no app yet');
    return another ? invalid('app_id', 'is required: there is more than one app') : app;
  });
}
