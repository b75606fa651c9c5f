import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import {
  type ViewRow,
  viewAnswer,
  viewColumns,
  viewExample,
  viewFields,
  viewParams,
  viewSchema,
  withView,
} from './view.ts';

const change = `UPDATE saved_views SET name = $3, query = $4::jsonb, updated_at = $5
  WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${viewColumns}`;

export const updateView = changingRoute({
  method: 'PATCH',
  path: '/views/{view_id}',
  operationId: 'updateView',
  caller: 'user',
  scope: 'analytics:write',
  limit: 'general',
  tag: 'Views',
  summary: 'Update a saved view',
  description: 'Omitted fields keep their value; `query` is replaced as a whole.',
  params: viewParams,
  body: Type.Object(
    { name: Type.Optional(viewFields.name), query: Type.Optional(viewFields.query) },
    { additionalProperties: false, minProperties: 1, title: 'ViewChanges' },
  ),
  bodyExample: { name: 'Spring' },
  answers: { 200: { description: 'The updated view.', schema: viewSchema, example: viewExample } },
  handle: (deps, { caller, note, params, body }) =>
    withView(deps, caller, { id: params.view_id, isChange: true }, async (tenant, view) => {
      const { name = view.name, query = view.query } = body;
      const values = [view.id, name.trim(), JSON.stringify(query), new Date(deps.clock())];
      const [row] = await tenant.query<ViewRow>(change, values);
      return { status: 200, body: viewAnswer(row ?? view), noted: await note(tenant, view) };
    }),
});
