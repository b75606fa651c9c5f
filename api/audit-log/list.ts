import { Type } from 'typebox';
import { managedOrganizations } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import type { Route } from '#common/http/route.ts';

interface Row {
  readonly id: string;
  readonly organization_id: string;
  readonly at: Date;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly action: string;
  readonly target_id: string;
  readonly fields: readonly string[];
  readonly address: string;
  readonly request_id: string;
}

const from = `FROM audit_log WHERE organization_id = ANY ($1) AND ($2::text IS NULL OR actor_id = $2)
  AND ($3::text[] IS NULL OR action = ANY ($3)) AND ($4::text IS NULL OR target_id = $4 OR id IN (
    SELECT id FROM audit_log WHERE organization_id = ANY ($1) AND target_ids @> ARRAY[$4]))
  AND ($5::timestamptz IS NULL OR at >= $5) AND ($6::timestamptz IS NULL OR at < $6)`;
/** Server keys have names that their owners choose, so a name alone does not tell who it was. */
const actorKinds = ['user', 'key'] as const;
type ActorKind = (typeof actorKinds)[number];

const columns =
  'public_id AS id, organization_id, at, actor_id, actor_name, action, target_id, fields, address, request_id';
const page = `SELECT ${columns} ${from} ORDER BY audit_log.id DESC LIMIT $7 OFFSET $8`;

const example = {
  id: '0d9b6f0e-5f3c-4a57-9f0b-3c1f0c8f7a21',
  organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y4',
  at: '2026-01-15T09:30:00.000Z',
  actor_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y3',
  actor_kind: 'user',
  actor_name: 'ada@example.com',
  action: 'updateMember',
  target_id: 'usr_01kzg3v5k2e4z9n7q8w6r5t4y5',
  fields: ['role'],
  address: '203.0.113.7',
  request_id: 'req_01kzg3v5k2e4z9n7q8w6r5t4y6',
};

const listAuditLog = route({
  method: 'GET',
  path: '/audit-log',
  operationId: 'listAuditLog',
  caller: 'user',
  scope: null,
  limit: 'general',
  tag: 'Audit log',
  summary: 'List changes',
  description:
    'Changes that users and server keys made through the API in the last year, newest first: who changed what, when and from where. Only owners can read it. Records the names of changed fields, not their values. Does not include changes made by SDKs or by `npm run admin`.',
  query: Type.Object(
    {
      ...pageQuery,
      organization_id: Type.Optional(Type.String({ description: 'Default: all organizations that you own.' })),
      actor_id: Type.Optional(Type.String({ maxLength: 64, description: 'Id of a user or a server key.' })),
      action: Type.Optional(
        Type.String({
          maxLength: 1_000,
          description: 'One or more operationIds of changes, separated by commas.',
        }),
      ),
      target_id: Type.Optional(
        Type.String({
          maxLength: 200,
          description: 'Id of the changed object. Also finds links that were changed in a bulk request.',
        }),
      ),
      start: Type.Optional(Type.String({ format: 'date-time', description: 'The earliest change.' })),
      end: Type.Optional(Type.String({ format: 'date-time', description: 'Changes before this time.' })),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of changes.',
      schema: listSchema(
        Type.Object(
          {
            id: Type.String({ description: 'Says nothing about order or number.' }),
            organization_id: Type.String(),
            at: Type.String({ format: 'date-time' }),
            actor_id: Type.String(),
            actor_kind: Type.Unsafe<ActorKind>({
              type: 'string',
              enum: [...actorKinds],
              description: 'Whether it was a user or a server key.',
            }),
            actor_name: Type.String({
              description: 'The e-mail address of the user or the name of the server key, at that time.',
            }),
            action: Type.String({ description: 'The operationId.' }),
            target_id: Type.String({ description: 'Empty if there is no single one.' }),
            fields: Type.Array(Type.String(), { description: 'Names of the fields that were sent.' }),
            address: Type.String(),
            request_id: Type.String({ description: 'The X-Request-Id of the response.' }),
          },
          { title: 'AuditEntry' },
        ),
      ),
      example: { data: [example], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  async handle({ db, auditedActions }, { caller, query }) {
    const actions = query.action?.split(',').map((one) => one.trim()) ?? null;
    const unknown = actions?.find((one) => !auditedActions.has(one));
    if (unknown !== undefined)
      return invalid('action', `has ${JSON.stringify(unknown)}, which is not the operationId of a change`);
    const organizations = await managedOrganizations(db, caller, query.organization_id);
    if (organizations instanceof Rejection) return organizations;
    const { limit, offset } = pageOf(query);
    const { actor_id = null, target_id = null, start = null, end = null } = query;
    const values = [organizations, actor_id, actions, target_id, start, end];
    const [counted] = await db.query<{ total: number }>(`SELECT count(*) AS total ${from}`, values, 'audit_log_count');
    const rows = await db.query<Row>(page, [...values, limit, offset], 'audit_log_page');
    const data = rows.map((row) => ({ ...row, actor_kind: kindOf(row.actor_id), at: row.at.toISOString() }));
    return listAnswer(data, Number(counted?.total ?? 0), { limit, offset });
  },
});

function kindOf(actorId: string): ActorKind {
  return actorId.startsWith('key_') ? 'key' : 'user';
}

export const auditLogRoutes: readonly Route<ApiDeps>[] = [listAuditLog];
