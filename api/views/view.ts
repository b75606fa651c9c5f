/** A saved view: a set of statistics parameters with a name. */
import { Type } from 'typebox';
import { ownerOf, refuseLimitedKey, tenantOf, unknownId } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { UserCaller } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';

export interface ViewRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly query: Readonly<Record<string, string>>;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export const viewColumns = 'id, organization_id, name, query, created_by, created_at, updated_at';

export const viewFields = {
  name: Type.String({ minLength: 1, maxLength: 100, format: 'visible' }),
  query: Type.Unsafe<Readonly<Record<string, string>>>({
    type: 'object',
    additionalProperties: { type: 'string', maxLength: 4_000 },
    propertyNames: { pattern: '^[a-z_]{1,40}$' },
    maxProperties: 40,
    description: 'Query parameters of GET /analytics/page or of any other request, as strings. They are not validated.',
  }),
};

export const viewParams = Type.Object({ view_id: Type.String() });

const time = Type.String({ format: 'date-time' });
export const viewSchema = Type.Object(
  {
    id: Type.String(),
    organization_id: Type.String(),
    ...viewFields,
    created_by: Type.Union([Type.String(), Type.Null()], {
      description: 'The user who created it; null if it was a server key or the user was deleted.',
    }),
    created_at: time,
    updated_at: time,
  },
  { title: 'View' },
);

export const viewExample = {
  id: 'viw_01kzg3v5k2e4z9n7q8w6r5t4y3',
  organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y3',
  name: 'Spring in Germany',
  query: { interval: '90d', campaign: 'spring', country: 'DE', breakdowns: 'link_id,browser' },
  created_by: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  created_at: '2026-11-20T12:00:00.000Z',
  updated_at: '2026-11-20T12:00:00.000Z',
};

export function viewAnswer({ created_at, updated_at, ...row }: ViewRow): object {
  return { ...row, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
}

/**
 * Works on a view of one of the caller's organizations, in a transaction: 404 if it does not exist; 403 if it belongs
 * to another organization, if a viewer wants to change it, and for a server key limited to some apps.
 */
export async function withView<T>(
  { db, tenancy }: ApiDeps,
  caller: UserCaller,
  { id, isChange }: { readonly id: string; readonly isChange: boolean },
  work: (tenant: TenantQueries, view: ViewRow) => Promise<T>,
): Promise<T | Rejection> {
  const owner = await ownerOf(db, caller, { kind: 'viw', id, to: isChange ? 'write' : 'read' });
  if (owner instanceof Rejection) return owner;
  const limited = refuseLimitedKey(caller, 'Views');
  if (limited) return limited;
  return tenancy.within(tenantOf(caller, [owner]), async (tenant) => {
    const sql = `SELECT ${viewColumns} FROM saved_views WHERE organization_id = ANY ($1) AND id = $2${isChange ? ' FOR UPDATE' : ''}`;
    const [view] = await tenant.query<ViewRow>(sql, [id]);
    return view ? work(tenant, view) : unknownId('viw');
  });
}
