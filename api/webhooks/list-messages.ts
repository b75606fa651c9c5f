import { Type } from 'typebox';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route, type UserCaller } from '#api/route.ts';
import type { Answer } from '#common/http/route.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { type EndpointRow, endpointParams, withEndpoint } from './endpoint.ts';
import {
  type AttemptRow,
  attemptAnswer,
  attemptExample,
  attemptSchema,
  COUNTED_MAX,
  type MessageRow,
  messageAnswer,
  messageExample,
  messageSchema,
  statusSchema,
} from './message.ts';
import { shownUrl } from './shown-url.ts';

const ofMessages = `FROM webhook_messages m JOIN webhook_endpoints e ON e.id = m.endpoint_id
  WHERE m.organization_id = ANY ($1) AND m.endpoint_id = $2 AND ($3::text IS NULL OR m.status = $3)
    AND signpost_is_message_for(e.app_ids, m.type, m.data) ORDER BY m.created_at DESC, m.id DESC`;
const ofAttempts = `FROM webhook_attempts t JOIN webhook_endpoints e ON e.id = t.endpoint_id
  WHERE t.organization_id = ANY ($1) AND t.endpoint_id = $2 AND ($3::text IS NULL OR t.message_id = $3)
    AND (e.app_ids IS NULL OR NOT EXISTS (
      SELECT FROM webhook_messages m WHERE m.id = t.message_id AND NOT signpost_is_message_for(e.app_ids, m.type, m.data)))
  ORDER BY t.id DESC`;
const counting = (what: string) => `SELECT count(*) AS total FROM (SELECT 1 ${what} LIMIT ${COUNTED_MAX}) AS counted`;
const limited = `Lists at most the newest ${COUNTED_MAX}.`;

export const listWebhookMessages = route({
  method: 'GET',
  path: '/webhooks/{webhook_id}/messages',
  operationId: 'listWebhookMessages',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'List the messages of a webhook',
  description: `From the last 30 days, newest first. ${limited}`,
  params: endpointParams,
  query: Type.Object({ ...pageQuery, status: Type.Optional(statusSchema) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of messages.',
      schema: listSchema(messageSchema),
      example: { data: [messageExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: (deps, { caller, params, query }) =>
    withEndpoint(deps, caller, params.webhook_id, true, async (tenant, { organization_id }) => {
      const page = pageOf(query);
      const values = [params.webhook_id, query.status ?? null];
      const [counted] = await tenant.query<{ total: number }>(counting(ofMessages), values);
      const columns = 'm.id, m.type, m.status, m.tries, m.data, m.occurred_at, m.created_at, m.due_at';
      const rows = await tenant.query<MessageRow>(`SELECT ${columns} ${ofMessages} LIMIT $4 OFFSET $5`, [
        ...values,
        page.limit,
        page.offset,
      ]);
      return listAnswer(
        rows.map((row) => messageAnswer(row, (url) => shownUrl(caller, organization_id, url))),
        counted?.total ?? 0,
        page,
      );
    }),
});

export const listWebhookAttempts = route({
  method: 'GET',
  path: '/webhooks/{webhook_id}/attempts',
  operationId: 'listWebhookAttempts',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'List the attempts of a webhook',
  description: `From the last 30 days, newest first. ${limited}`,
  params: endpointParams,
  query: Type.Object({ ...pageQuery, message_id: Type.Optional(Type.String()) }, { additionalProperties: false }),
  answers: {
    200: {
      description: 'A page of attempts.',
      schema: listSchema(attemptSchema),
      example: { data: [attemptExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: (deps, { caller, params, query }) =>
    withEndpoint(deps, caller, params.webhook_id, true, (tenant, endpoint) =>
      attemptsOf(tenant, caller, endpoint, query),
    ),
});

/** A page of the attempts of an endpoint. */
export async function attemptsOf(
  tenant: TenantQueries,
  caller: UserCaller,
  { id, organization_id }: Pick<EndpointRow, 'id' | 'organization_id'>,
  query: Parameters<typeof pageOf>[0] & { readonly message_id?: string },
): Promise<Answer> {
  const page = pageOf(query);
  const values = [id, query.message_id ?? null];
  const [counted] = await tenant.query<{ total: number }>(counting(ofAttempts), values);
  const columns = 't.message_id, t.type, t.url, t.outcome, t.http_status, t.answer, t.duration_ms, t.attempted_at';
  const rows = await tenant.query<AttemptRow>(`SELECT ${columns} ${ofAttempts} LIMIT $4 OFFSET $5`, [
    ...values,
    page.limit,
    page.offset,
  ]);
  return listAnswer(
    rows.map((row) => attemptAnswer({ ...row, url: shownUrl(caller, organization_id, row.url) })),
    counted?.total ?? 0,
    page,
  );
}
