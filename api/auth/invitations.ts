/** Accepting an invitation: with a new account, or with the account that the caller is logged in to. */
import { Type } from 'typebox';
import type { Note } from '#api/audit-trail.ts';
import { passwordRule } from '#api/password-strength.ts';
import { hashOfInvitation } from '#api/people.ts';
import type { ChangeAnswer, Changes, Reads, Role, UserCaller } from '#api/route.ts';
import type { Clock } from '#common/clock.ts';
import { forbidden, invalid, notFound, Rejection, rateLimited } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import { newId } from '#common/ids.ts';
import type { Postgres } from '#common/stores/postgres.ts';
import { type AuthParts, tag } from './parts.ts';

export interface PeopleDeps {
  readonly auth: AuthParts;
  readonly db: Postgres;
  readonly clock: Clock;
}

const publicRoute = routesOf<PeopleDeps, null, Reads>();
const publicChange = routesOf<PeopleDeps, null, Changes>();
const changingRoute = routesOf<PeopleDeps, UserCaller, Changes>();

const token = Type.String({ minLength: 1, maxLength: 256, description: 'The token from the invitation link.' });
const roleSchema = Type.Unsafe<Role>({ type: 'string', enum: ['owner', 'member', 'viewer'] });
const joined = {
  description: 'The user is a member of the organization. Someone who already was a member keeps their role.',
  schema: Type.Object({ user_id: Type.String(), organization_id: Type.String(), role: roleSchema }),
  example: {
    user_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
    organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
    role: 'member',
  },
} as const;
const exampleToken = 'Zk3n0Vb2yJ8m4m0rYF2o9tq1xQb7n3uK5s6a0cWdEgA';
const gone = () => notFound('This invitation does not exist: it was used or withdrawn, or has expired.');

interface Found {
  readonly organization_id: string;
  readonly organization_name: string;
  readonly email: string;
  readonly role: Role;
  readonly has_account: boolean;
}

async function invitationOf({ db, clock }: PeopleDeps, given: string): Promise<Found | null> {
  const sql = `SELECT organization_id, organization_name, email, role, has_account FROM signpost_invitation_of($1, $2)`;
  const [found] = await db.query<Found>(sql, [hashOfInvitation(given), new Date(clock())], 'invitation_of');
  return found ?? null;
}

export const lookUpInvitation = publicRoute({
  method: 'POST',
  path: '/auth/invitations/look-up',
  operationId: 'lookUpInvitation',
  caller: 'public',
  isRead: true,
  limit: 'auth',
  tag,
  summary: 'Show an invitation to the person who has its link',
  body: Type.Object({ token }, { additionalProperties: false }),
  bodyExample: { token: exampleToken },
  answers: {
    200: {
      description: 'The invitation.',
      schema: Type.Object({
        organization_id: Type.String(),
        organization_name: Type.String(),
        email: Type.String(),
        role: roleSchema,
        has_account: Type.Boolean({
          description:
            'Whether the invited address already has an account, which must then accept the invitation. Always false if the link did not come by mail, because the inviter has it too.',
        }),
      }),
      example: {
        organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
        organization_name: 'Example',
        email: 'grace@example.com',
        role: 'member',
        has_account: false,
      },
    },
  },
  async handle(deps, { body }) {
    const found = await invitationOf(deps, body.token);
    return found ? { status: 200, body: found } : gone();
  },
});

export const acceptInvitation = publicChange({
  method: 'POST',
  path: '/auth/invitations/accept',
  operationId: 'acceptInvitation',
  caller: 'public',
  limit: 'auth',
  tag,
  summary: 'Accept an invitation with a new account',
  description:
    'Creates an account with the invited address, which is verified if the link came by mail. If the address already has an account (details.reason account_exists), log in and use POST /me/invitations instead. The token works once. Log in as usual afterwards; the organization may require a second factor first.',
  body: Type.Object(
    {
      token,
      name: Type.Optional(Type.String({ maxLength: 200, format: 'plain-line' })),
      password: Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'At least 12 characters that are hard to guess.',
      }),
    },
    { additionalProperties: false },
  ),
  bodyExample: { token: exampleToken, name: 'Grace', password: 'seven unrelated heavy words' },
  answers: { 201: joined },
  async handle(deps, { body, ip, note }) {
    const found = await invitationOf(deps, body.token);
    if (!found) return gone();
    if (found.has_account) return accountExists();
    const weakness = (await passwordRule())(body.password, [found.email, body.name ?? '', found.organization_name]);
    if (weakness !== null) return invalid('password', weakness);
    const hash = await deps.auth.passwords.hash(body.password, ip);
    if (hash === null) return rateLimited(2);
    const answer = await accept({ ...deps, note }, body.token, null, [body.name?.trim() ?? '', hash]);
    return answer instanceof Rejection ? answer : { ...answer, status: 201 };
  },
});

export const acceptOwnInvitation = changingRoute({
  method: 'POST',
  path: '/me/invitations',
  operationId: 'acceptOwnInvitation',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag,
  summary: 'Accept an invitation with your account',
  description:
    'The invitation must be for your account’s e-mail address, which must be verified (`email_verified` of GET /me). The token works once.',
  body: Type.Object({ token }, { additionalProperties: false }),
  bodyExample: { token: exampleToken },
  answers: { 200: joined },
  handle: (deps, { caller, note, body }) => accept({ ...deps, note }, body.token, caller.user_id, ['', '']),
});

const accountExists = () =>
  forbidden('This address already has an account: log in with it to accept the invitation.', 'account_exists');

const refusals = {
  absent: gone,
  account_exists: accountExists,
  other_account: () =>
    forbidden('This invitation is for a different e-mail address than your account’s.', 'other_account'),
  unverified: () =>
    forbidden(
      'The e-mail address of your account is not verified yet. Log in through a provider, set a new password with a link by mail, or ask the operator for a new password. Then accept the invitation.',
      'email_unverified',
    ),
};

interface Outcome {
  readonly outcome: 'done' | keyof typeof refusals;
  readonly joined_user: string;
  readonly joined_organization: string;
  readonly joined_role: Role;
}

async function accept(
  { db, clock, note }: PeopleDeps & { readonly note: Note },
  given: string,
  account: string | null,
  [name, hash]: readonly [name: string, hash: string],
): Promise<ChangeAnswer | Rejection> {
  const nowMs = clock();
  const values = [hashOfInvitation(given), new Date(nowMs), account, newId('usr', nowMs), name, hash];
  return db.transaction(async (queries) => {
    const sql = 'SELECT * FROM signpost_accept_invitation($1, $2, $3, $4, $5, $6)';
    const [row] = await queries.query<Outcome>(sql, values, 'invitation_accept');
    if (row?.outcome !== 'done') return refusals[row?.outcome ?? 'absent']();
    const { joined_user: user_id, joined_organization: organization_id, joined_role: role } = row;
    const noted = await note(queries, { organization_id, id: user_id, actor: user_id });
    return { status: 200, body: { user_id, organization_id, role }, noted };
  });
}
