import { Type } from 'typebox';
import { chooseOrganization, refuseLimitedKey, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { type ViewRow, viewAnswer, viewColumns, viewExample, viewFields, viewSchema } from './view.ts';

const viewsMax = 500;

const insertion = `
  INSERT INTO saved_views (id, organization_id, name, query, created_by, created_at, updated_at)
  SELECT $2, o.id, $3, $4::jsonb, $5, $6, $6 FROM unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('saved_views', o.id, ${viewsMax})
  RETURNING ${viewColumns}`;

export const createView = changingRoute({
  method: 'POST',
  path: '/views',
  operationId: 'createView',
  caller: 'user',
  scope: 'analytics:write',
  limit: 'general',
  tag: 'Views',
  summary: 'Save a view',
  description: 'Visible to all members of the organization.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a caller who belongs to exactly one organization.' }),
      ),
      ...viewFields,
    },
    { additionalProperties: false, title: 'NewView' },
  ),
  bodyExample: { name: viewExample.name, query: viewExample.query },
  answers: { 201: { description: 'The new view.', schema: viewSchema, example: viewExample } },
  async handle({ db, tenancy, clock }, { caller, note, body }) {
    const organization = await chooseOrganization(db, caller, body.organization_id);
    if (organization instanceof Rejection) return organization;
    const denied = refuseWrite(caller, organization) ?? refuseLimitedKey(caller, 'Views');
    if (denied) return denied;
    return tenancy.within(tenantOf(caller, [organization]), async (tenant) => {
      const nowMs = clock();
      const creator = caller.key ? null : caller.user_id;
      const values = [newId('viw', nowMs), body.name.trim(), JSON.stringify(body.query), creator, new Date(nowMs)];
      const [row] = await tenant.query<ViewRow>(insertion, values);
      if (!row) return invalid('body', `the organization has ${viewsMax} views: delete one first`);
      return { status: 201, body: viewAnswer(row), noted: await note(tenant, row) };
    });
  },
});
