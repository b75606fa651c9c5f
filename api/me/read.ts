import { Type } from 'typebox';
import type { Role, UserCaller } from '#api/route.ts';
import { unauthorized } from '#common/http/rejection.ts';
import { type Route, routesOf } from '#common/http/route.ts';
import type { Postgres } from '#common/postgres.ts';

export interface MeDeps {
  readonly db: Postgres;
}

interface Row {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly organizations: readonly { id: string; name: string; role: Role }[];
}

const route = routesOf<MeDeps, UserCaller>();

export const readMe = route({
  method: 'GET',
  path: '/me',
  caller: 'user',
  limit: 'general',
  tag: 'Authentication',
  summary: 'Who am I, and to what do I belong?',
  answers: {
    200: {
      description: 'The user and the organizations, oldest first.',
      schema: Type.Object({
        user: Type.Object({ id: Type.String(), email: Type.String(), name: Type.String() }),
        organizations: Type.Array(
          Type.Object({
            id: Type.String(),
            name: Type.String(),
            role: Type.Union([Type.Literal('owner'), Type.Literal('member'), Type.Literal('viewer')]),
          }),
        ),
      }),
      example: {
        user: { id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3', email: 'ada@example.com', name: 'Ada' },
        organizations: [{ id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4', name: 'Example', role: 'owner' }],
      },
    },
  },
  async handle({ db }, { caller }) {
    const [row] = await db.query<Row>(
      `SELECT u.id, u.email, u.name,
              coalesce((SELECT json_agg(json_build_object('id', o.id, 'name', o.name, 'role', m.role) ORDER BY o.id)
                          FROM memberships m JOIN organizations o ON o.id = m.organization_id
                         WHERE m.user_id = u.id), '[]'::json) AS organizations
         FROM users u WHERE u.id = $1 AND u.deleted_at IS NULL`,
      [caller.user_id],
      'me_read',
    );
    if (!row) return unauthorized();
    const { organizations, ...user } = row;
    return { status: 200, body: { user, organizations } };
  },
});

export const meRoutes: readonly Route<MeDeps>[] = [readMe];
