import { Type } from 'typebox';
import type { Role, UserCaller } from '#api/route.ts';
import { unauthorized } from '#common/http/rejection.ts';
import { type Route, routesOf } from '#common/http/route.ts';
import type { Postgres } from '#common/stores/postgres.ts';

export interface MeDeps {
  readonly db: Postgres;
}

interface Row {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly email_verified: boolean;
  readonly totp_enabled: boolean;
  readonly outbound_held_since: Date | null;
  readonly organizations: readonly { id: string; name: string; role: Role; totp_required: boolean }[];
}

const route = routesOf<MeDeps, UserCaller>();

export const readMe = route({
  method: 'GET',
  path: '/me',
  operationId: 'getMe',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Authentication',
  summary: 'Get the current user and their organizations',
  answers: {
    200: {
      description: 'The user and the organizations, oldest first.',
      schema: Type.Object(
        {
          user: Type.Object(
            {
              id: Type.String(),
              email: Type.String(),
              email_verified: Type.Boolean({
                description:
                  'False until a login through a provider or a mailed link proves the address, for an account that accepted an invitation whose link its inviter saw. Such an account accepts no further invitation.',
              }),
              name: Type.String(),
              totp_enabled: Type.Boolean({ description: 'Whether a second factor is set up.' }),
            },
            { title: 'User' },
          ),
          organization_id: Type.Union([Type.String(), Type.Null()], {
            description: 'The organization to which this session of the dashboard is limited; null for none.',
          }),
          outbound_held_since: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
            description:
              'Since when the installation sends no webhooks, postbacks and mail, because it is a restored copy. Null if it sends them, and for users who own no organization.',
          }),
          organizations: Type.Array(
            Type.Object(
              {
                id: Type.String(),
                name: Type.String(),
                totp_required: Type.Boolean({
                  description: 'Whether members need a second factor to access the organization.',
                }),
                role: Type.Union([Type.Literal('owner'), Type.Literal('member'), Type.Literal('viewer')]),
              },
              { title: 'Membership' },
            ),
          ),
        },
        { title: 'Me' },
      ),
      example: {
        user: {
          id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
          email: 'ada@example.com',
          email_verified: true,
          name: 'Ada',
          totp_enabled: false,
        },
        organization_id: null,
        outbound_held_since: null,
        organizations: [{ id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4', name: 'Example', role: 'owner', totp_required: false }],
      },
    },
  },
  async handle({ db }, { caller }) {
    const [row] = await db.query<Row>(
      `SELECT u.id, u.email, u.unverified_since IS NULL AS email_verified, u.name,
              EXISTS (SELECT FROM user_totp t WHERE t.user_id = u.id AND t.confirmed_at IS NOT NULL) AS totp_enabled,
              coalesce((SELECT json_agg(json_build_object('id', o.id, 'name', o.name, 'role', m.role,
                                                         'totp_required', o.requires_totp) ORDER BY o.id)
                          FROM memberships m JOIN organizations o ON o.id = m.organization_id
                         WHERE m.user_id = u.id), '[]'::json) AS organizations,
              CASE WHEN EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id AND m.role = 'owner')
                   THEN (SELECT i.outbound_held_since FROM signpost_installation() i) END AS outbound_held_since
         FROM users u WHERE u.id = $1 AND u.deleted_at IS NULL`,
      [caller.user_id],
      'me_read',
    );
    if (!row) return unauthorized();
    const { organizations, outbound_held_since, ...user } = row;
    const organization_id = caller.session?.organization_id ?? null;
    const held = outbound_held_since?.toISOString() ?? null;
    return { status: 200, body: { user, organization_id, outbound_held_since: held, organizations } };
  },
});

export const meRoutes: readonly Route<MeDeps>[] = [readMe];
