import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { viewExample, viewParams, withView } from './view.ts';

export const deleteView = changingRoute({
  method: 'DELETE',
  path: '/views/{view_id}',
  operationId: 'deleteView',
  caller: 'user',
  scope: 'analytics:write',
  limit: 'general',
  tag: 'Views',
  summary: 'Delete a saved view',
  params: viewParams,
  answers: {
    200: {
      description: 'The view is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: viewExample.id, deleted: true },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withView(deps, caller, { id: params.view_id, isChange: true }, async (tenant, view) => {
      await tenant.query('DELETE FROM saved_views WHERE organization_id = ANY ($1) AND id = $2', [view.id]);
      return { status: 200, body: { id: view.id, deleted: true }, noted: await note(tenant, view) };
    }),
});
