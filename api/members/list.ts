/** The members of the caller's organizations. */
import { Type } from 'typebox';
import { readableOrganizations } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { type Role, route } from '#api/route.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';
import { removeMember, updateMember } from './change.ts';

interface Row {
  readonly user_id: string;
  readonly organization_id: string;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly is_disabled: boolean;
  readonly created_at: Date;
}

const from = `FROM memberships m JOIN users u ON u.id = m.user_id JOIN organizations o ON o.id = m.organization_id
  WHERE m.organization_id = ANY ($1) AND u.deleted_at IS NULL AND o.deleted_at IS NULL`;
const page = `SELECT m.user_id, m.organization_id, u.email, u.name, m.role, u.disabled_at IS NOT NULL AS is_disabled, m.created_at
  ${from} ORDER BY m.created_at DESC, m.user_id DESC, m.organization_id DESC LIMIT $2 OFFSET $3`;

const example = {
  user_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
  email: 'ada@example.com',
  name: 'Ada',
  role: 'owner',
  is_disabled: false,
  created_at: '2026-01-15T09:30:00.000Z',
};

const listMembers = route({
  method: 'GET',
  path: '/members',
  operationId: 'listMembers',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Members',
  summary: 'List members',
  description: 'Members of your organizations. Someone who belongs to two of them is listed twice.',
  query: Type.Object({ ...pageQuery, organization_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of members.',
      schema: listSchema(
        Type.Object(
          {
            user_id: Type.String(),
            organization_id: Type.String(),
            email: Type.String(),
            name: Type.String(),
            role: Type.Unsafe<Role>({ type: 'string', enum: ['owner', 'member', 'viewer'] }),
            is_disabled: Type.Boolean({ description: 'Whether an operator has disabled the account.' }),
            created_at: Type.String({ format: 'date-time', description: 'When the person joined.' }),
          },
          { title: 'Member' },
        ),
      ),
      example: { data: [example], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db }, { caller, query }) {
    const scope = await readableOrganizations(db, caller, query.organization_id);
    if (scope instanceof Rejection) return scope;
    const { limit, offset } = pageOf(query);
    const [counted] = await db.query<{ total: number }>(`SELECT count(*) AS total ${from}`, [scope], 'members_count');
    const rows = await db.query<Row>(page, [scope, limit, offset], 'members_page');
    return listAnswer(rows, Number(counted?.total ?? 0), { limit, offset });
  },
});

export const memberRoutes: readonly Route<ApiDeps>[] = [listMembers, updateMember, removeMember];
