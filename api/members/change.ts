/** Changes a member's role, and removes members. The rules are in Postgres: pg-migrations/0770_people.sql. */
import { Type } from 'typebox';
import { chooseOrganization, refuseOrganization } from '#api/access.ts';
import { changePeople } from '#api/people.ts';
import { changingRoute, type Role } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';

export const roleSchema = Type.Unsafe<Role>({ type: 'string', enum: ['owner', 'member', 'viewer'] });
const params = Type.Object({ user_id: Type.String({ examples: ['usr_01kzg3v5k2e4z9n7q8w6r5t4y3'] }) });
const organization_id = Type.Optional(
  Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
);
const example = { user_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3', organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4' };
const shared = { caller: 'user', scope: null, limit: 'general', tag: 'Members', params } as const;

export const updateMember = changingRoute({
  ...shared,
  method: 'PATCH',
  path: '/members/{user_id}',
  operationId: 'updateMember',
  summary: 'Change a member’s role',
  description:
    'Takes effect at the member’s next request. Only owners can do this. The last owner who can log in must stay an owner.',
  body: Type.Object({ organization_id, role: roleSchema }, { additionalProperties: false }),
  bodyExample: { role: 'viewer' },
  answers: {
    200: {
      description: 'The role is changed.',
      schema: Type.Object({ user_id: Type.String(), organization_id: Type.String(), role: roleSchema }),
      example: { ...example, role: 'viewer' },
    },
  },
  async handle({ db }, { caller, note, params: { user_id }, body }) {
    const organizationId = await chooseOrganization(db, caller, body.organization_id);
    if (organizationId instanceof Rejection) return organizationId;
    const values = [caller.user_id, organizationId, user_id, body.role];
    return changePeople({ db, note }, 'signpost_set_role($1, $2, $3, $4)', values, {
      organization_id: organizationId,
      id: user_id,
      body: { user_id, organization_id: organizationId, role: body.role },
    });
  },
});

export const removeMember = changingRoute({
  ...shared,
  method: 'DELETE',
  path: '/members/{user_id}',
  operationId: 'removeMember',
  // Used to leave an organization.
  isForViewers: true,
  summary: 'Remove a member, or leave',
  description:
    'The member loses access at their next request; what they created stays. Owners can remove anyone, and any member can leave, except the last owner who can log in.',
  query: Type.Object({ organization_id }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'The member is removed.',
      schema: Type.Object({ user_id: Type.String(), organization_id: Type.String(), deleted: Type.Literal(true) }),
      example: { ...example, deleted: true },
    },
  },
  async handle({ db }, { caller, note, params: { user_id }, query }) {
    const asked = query.organization_id;
    const refused = asked === undefined ? null : await refuseOrganization(db, caller, asked);
    if (refused) return refused;
    const organizationId = await chooseOrganization(db, caller, asked);
    if (organizationId instanceof Rejection) return organizationId;
    const values = [caller.user_id, organizationId, user_id];
    return changePeople({ db, note }, 'signpost_remove_member($1, $2, $3)', values, {
      organization_id: organizationId,
      id: user_id,
      body: { user_id, organization_id: organizationId, deleted: true },
    });
  },
});
