import { Type } from 'typebox';
import { refuseOrganization } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { peopleRejection } from '#api/people.ts';
import { route } from '#api/route.ts';
import type { Route } from '#common/http/route.ts';

const example = { id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4', name: 'Example' };

const updateOrganization = route({
  method: 'PATCH',
  path: '/organizations/{organization_id}',
  operationId: 'updateOrganization',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Members',
  summary: 'Rename an organization',
  description: 'Only owners can do this.',
  params: Type.Object({ organization_id: Type.String({ examples: [example.id] }) }),
  body: Type.Object(
    { name: Type.String({ minLength: 1, maxLength: 100, format: 'visible' }) },
    { additionalProperties: false },
  ),
  bodyExample: { name: example.name },
  answers: {
    200: {
      description: 'The organization.',
      schema: Type.Object({ id: Type.String(), name: Type.String() }),
      example,
    },
  },
  async handle({ db }, { caller, params, body }) {
    const id = params.organization_id;
    const refused = await refuseOrganization(db, caller, id);
    if (refused) return refused;
    const name = body.name.trim();
    const sql = 'SELECT signpost_rename_organization($1, $2, $3) AS outcome';
    const [row] = await db.query<{ outcome: string }>(sql, [caller.user_id, id, name], 'organization_rename');
    const answer = { status: 200, body: { id, name }, changed: { organization_id: id, target_id: id } };
    return peopleRejection(row?.outcome) ?? answer;
  },
});

export const organizationRoutes: readonly Route<ApiDeps>[] = [updateOrganization];
