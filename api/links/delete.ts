import { Type } from 'typebox';
import { refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { linkExample } from '#common/links/link.ts';
import { findLink, linkParams } from './read.ts';

const markDeleted = `UPDATE links SET deleted_at = $3, updated_at = $3
  WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL`;

export const deleteLinkRoute = changingRoute({
  method: 'DELETE',
  path: '/links/{id}',
  operationId: 'deleteLink',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Delete a link',
  description: 'The link returns 404 within one second. Its statistics are kept, and its short code is never reused.',
  params: linkParams,
  answers: {
    200: {
      description: 'The link is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: linkExample.id, deleted: true },
    },
  },
  handle: async ({ tenancy, clock, deliverChanges }, { caller, note, params }) => {
    const noted = await tenancy.within(tenantOf(caller), async (tenant) => {
      const found = await findLink(tenant, params.id, true);
      if (found instanceof Rejection) return found;
      const denied = refuseWrite(caller, found.organization_id);
      if (denied) return denied;
      await tenant.query(markDeleted, [params.id, new Date(clock())]);
      return note(tenant, found);
    });
    if (noted instanceof Rejection) return noted;
    await deliverChanges();
    return { status: 200, body: { id: params.id, deleted: true }, noted };
  },
});
