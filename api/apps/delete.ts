import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import { type AppRow, appColumns, appExample, appParams } from './app.ts';
import { changeApp } from './change.ts';

const markDeleted = `UPDATE apps SET deleted_at = $3, updated_at = $3, version = version + 1
  WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL RETURNING ${appColumns}`;

export const deleteAppRoute = changingRoute({
  method: 'DELETE',
  path: '/apps/{id}',
  operationId: 'deleteApp',
  caller: 'user',
  scope: 'apps:write',
  limit: 'general',
  tag: 'Apps',
  summary: 'Delete an app',
  description:
    'Its links return 404 and its API key returns 401 immediately. Its statistics are kept until their retention ends.',
  params: appParams,
  answers: {
    200: {
      description: 'The link is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: appExample.id, deleted: true },
    },
  },
  handle: async (deps, { caller, note, params }) => {
    const change = await changeApp(deps, { caller, note }, params.id, async (tenant, before) => {
      const [after] = await tenant.query<AppRow>(markDeleted, [before.id, new Date(deps.clock())]);
      if (!after) throw new Error('an app that is locked was not deleted');
      return after;
    });
    if (change instanceof Rejection) return change;
    return { status: 200, body: { id: change.after.id, deleted: true }, noted: change.noted };
  },
});
