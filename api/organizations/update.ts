import { Type } from 'typebox';
import { refuseOrganization } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { changePeople } from '#api/people.ts';
import { changingRoute } from '#api/route.ts';
import type { Route } from '#common/http/route.ts';

const example = { id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4', name: 'Example' };

const updateOrganization = changingRoute({
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
  async handle({ db }, { caller, note, params, body }) {
    const id = params.organization_id;
    const refused = await refuseOrganization(db, caller, id);
    if (refused) return refused;
    const name = body.name.trim();
    const named = { organization_id: id, id, body: { id, name } };
    return changePeople({ db, note }, 'signpost_rename_organization($1, $2, $3)', [caller.user_id, id, name], named);
  },
});

export const organizationRoutes: readonly Route<ApiDeps>[] = [updateOrganization];
