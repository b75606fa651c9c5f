import { Type } from 'typebox';
import { ownerOf, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { sharedPageExample } from './shared-page.ts';

export const deleteSharedPage = changingRoute({
  method: 'DELETE',
  path: '/shared-pages/{page_id}',
  operationId: 'deleteSharedPage',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Shared pages',
  summary: 'Revoke a shared page',
  description: 'Its address stops working immediately.',
  params: Type.Object({ page_id: Type.String() }),
  answers: {
    200: {
      description: 'The page is revoked.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: sharedPageExample.id, deleted: true },
    },
  },
  async handle({ db, tenancy }, { caller, note, params: { page_id: id } }) {
    const owner = await ownerOf(db, caller, { kind: 'shp', id, to: 'write' });
    if (owner instanceof Rejection) return owner;
    return tenancy.within(tenantOf(caller, [owner]), async (tenant) => {
      await tenant.query('DELETE FROM shared_pages WHERE organization_id = ANY ($1) AND id = $2', [id]);
      return { status: 200, body: { id, deleted: true }, noted: await note(tenant, { organization_id: owner, id }) };
    });
  },
});
