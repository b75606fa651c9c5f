/** Limits a browser session to one of the user's organizations. */
import { Type } from 'typebox';
import type { Reads, UserCaller } from '#api/route.ts';
import { forbidden, notFound } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { type AuthDeps, tag } from './parts.ts';

const route = routesOf<AuthDeps, UserCaller, Reads>();
const organization_id = Type.Union([Type.String({ maxLength: 64 }), Type.Null()]);

export const chooseSessionOrganization = route({
  method: 'PUT',
  path: '/session/organization',
  operationId: 'chooseSessionOrganization',
  caller: 'user',
  scope: null,
  // Changes only what this browser sees, so there is nothing to record in an audit log.
  isRead: true,
  limit: 'general',
  tag,
  summary: 'Limit this session to one organization',
  description:
    'After this call, requests from this browser read and write only this organization, as if the user belonged to no other. GET /me and other requests about the account still cover all organizations. `null` removes the limit, and so does leaving the organization. Tokens cannot be limited.',
  body: Type.Object({ organization_id }, { additionalProperties: false }),
  bodyExample: { organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4' },
  answers: {
    200: {
      description: 'The limit is set or removed.',
      schema: Type.Object({ organization_id }),
      example: { organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4' },
    },
  },
  async handle({ auth }, { caller, body }) {
    if (!caller.session) return notFound('This request has an access token, not a session.');
    const isChosen = await auth.browserSessions.choose(caller.session.id, caller.user_id, body.organization_id);
    return isChosen
      ? { status: 200, body: { organization_id: body.organization_id } }
      : forbidden('You are not a member of this organization.');
  },
});
