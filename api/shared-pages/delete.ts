import { Type } from 'typebox';
import { refuseWrite, tenantOf } from '#api/access.ts';
import { route } from '#api/route.ts';
import { notFound } from '#common/http/rejection.ts';
import { isId } from '#common/ids.ts';
import { sharedPageExample } from './shared-page.ts';

export const deleteSharedPage = route({
  method: 'DELETE',
  path: '/shared-pages/{page_id}',
  operationId: 'deleteSharedPage',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Shared pages',
  summary: 'Revoke a shared page',
  description: 'Its address shows nothing from then on.',
  params: Type.Object({ page_id: Type.String() }),
  answers: {
    200: {
      description: 'The page is revoked.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: sharedPageExample.id, deleted: true },
    },
  },
  async handle({ db, tenancy }, { caller, params: { page_id: id } }) {
    const owner = 'SELECT organization_id FROM shared_pages WHERE id = $1';
    const [found] = isId('shp', id) ? await db.query<{ organization_id: string }>(owner, [id]) : [];
    if (!found) return notFound('There is no shared page with this id.');
    const denied = refuseWrite(caller, found.organization_id);
    if (denied) return denied;
    await tenancy.within(tenantOf(caller, [found.organization_id]), (tenant) =>
      tenant.query('DELETE FROM shared_pages WHERE organization_id = ANY ($1) AND id = $2', [id]),
    );
    return { status: 200, body: { id, deleted: true }, changed: { ...found, target_id: id } };
  },
});
