import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { postbackExample, postbackParams, withPostback } from './postback.ts';

export const deletePostback = changingRoute({
  method: 'DELETE',
  path: '/postbacks/{postback_id}',
  operationId: 'deletePostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Delete a postback',
  description: 'Also deletes its waiting messages and attempts. An attempt in progress still completes.',
  params: postbackParams,
  answers: {
    200: {
      description: 'The postback is deleted.',
      schema: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
      example: { id: postbackExample.id, deleted: true },
    },
  },
  handle: (deps, { caller, note, params }) =>
    withPostback(deps, caller, params.postback_id, false, async (tenant, postback) => {
      const { id } = postback;
      await tenant.query('DELETE FROM webhook_endpoints WHERE organization_id = ANY ($1) AND id = $2', [id]);
      return { status: 200, body: { id, deleted: true }, noted: await note(tenant, postback) };
    }),
});
