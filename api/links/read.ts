import { Type } from 'typebox';
import { absent, tenantOf } from '#api/access.ts';
import { route, type UserCaller } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkColumns, linkExample, linkSchema } from '#common/links/link.ts';
import type { Tenancy, TenantQueries } from '#common/stores/tenancy.ts';

export const linkParams = Type.Object({ id: Type.String({ examples: [linkExample.id] }) });

export const readLinkRoute = route({
  method: 'GET',
  path: '/links/{id}',
  operationId: 'getLink',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'Get one link',
  params: linkParams,
  answers: { 200: { description: 'The link.', schema: linkSchema, example: linkExample } },
  handle: async ({ tenancy, shortUrl }, { caller, params }) => {
    const link = await readLink(tenancy, caller, params.id);
    return link instanceof Rejection ? link : { status: 200, body: linkAnswer(link, shortUrl) };
  },
});

const byId = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
  WHERE l.organization_id = ANY ($1) AND l.id = $2 AND l.deleted_at IS NULL AND a.deleted_at IS NULL`;

/** A link of the caller's organizations, or why they can't access it. */
export function readLink(tenancy: Tenancy, caller: UserCaller, id: string): Promise<LinkRow | Rejection> {
  return tenancy.within(tenantOf(caller), (tenant) => findLink(tenant, id));
}

/** The same within a transaction; `lock` locks it until the transaction ends. */
export async function findLink(tenant: TenantQueries, id: string, lock = false): Promise<LinkRow | Rejection> {
  const [link] = await tenant.query<LinkRow>(lock ? `${byId} FOR NO KEY UPDATE OF l` : byId, [id]);
  return link ?? absent(tenant, 'link', id);
}
