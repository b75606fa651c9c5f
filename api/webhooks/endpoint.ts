/** A webhook endpoint as stored in Postgres and as returned by the API: without its secret. */
import { Type } from 'typebox';
import { ownerOf, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { UserCaller } from '#api/route.ts';
import { forbidden, invalid, notFound, Rejection } from '#common/http/rejection.ts';
import { nullable } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  type DisabledReason,
  disabledReasons,
  type WebhookEventType,
  webhookEventTypes,
} from '#common/webhooks/webhook-events.ts';
import { shownUrl, urlForViewers } from './shown-url.ts';

export interface EndpointRow {
  readonly id: string;
  readonly organization_id: string;
  readonly url: string;
  readonly description: string;
  readonly events: readonly WebhookEventType[];
  readonly event_names: readonly string[] | null;
  readonly app_ids: readonly string[] | null;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly previous_secret_until: Date | null;
  readonly failing_since: Date | null;
  readonly disabled_at: Date | null;
  readonly disabled_reason: DisabledReason | null;
}

export const endpointColumns = `id, organization_id, url, description, events, event_names, app_ids, created_by, created_at, updated_at,
  previous_secret_until, failing_since, disabled_at, disabled_reason`;

export function endpointAnswer(caller: UserCaller, row: EndpointRow, nowMs: number): object {
  const { created_at, updated_at, previous_secret_until: until, failing_since, disabled_at, ...fields } = row;
  return {
    ...fields,
    url: shownUrl(caller, fields.organization_id, fields.url),
    enabled: disabled_at === null,
    disabled_at: disabled_at?.toISOString() ?? null,
    failing_since: failing_since?.toISOString() ?? null,
    previous_secret_until: until !== null && until.getTime() > nowMs ? until.toISOString() : null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}

/** Looks up an endpoint for a caller who may change it (or, with `isRead`, read it); otherwise returns why not. */
export async function findEndpoint(
  { db, tenancy }: ApiDeps,
  caller: UserCaller,
  id: string,
  isRead = false,
  kind: 'pbk' | 'whk' = 'whk',
): Promise<EndpointRow | Rejection> {
  const owner = await ownerOf(db, caller, { kind, id, to: isRead ? 'read' : 'write' });
  if (owner instanceof Rejection) return owner;
  const row = await tenancy.within(tenantOf(caller, [owner]), (tenant) => readEndpoint(tenant, id));
  return row ?? forbidden('This server key has no access to this webhook: it gets messages of other apps too.');
}

/** Undefined if the caller may not access it. @param lock `FOR NO KEY UPDATE` if it will be changed. */
export async function readEndpoint(
  tenant: TenantQueries,
  id: string,
  lock: '' | 'FOR NO KEY UPDATE' = '',
): Promise<EndpointRow | undefined> {
  const sql = `SELECT ${endpointColumns} FROM webhook_endpoints WHERE organization_id = ANY ($1) AND id = $2 ${lock}`;
  const [row] = await tenant.query<EndpointRow>(sql, [id]);
  return row;
}

/** Runs the work on an endpoint that the caller may change (or, with `isRead`, read), within its tenant. */
export async function withEndpoint<T>(
  deps: ApiDeps,
  caller: UserCaller,
  id: string,
  isRead: boolean,
  work: (tenant: TenantQueries, endpoint: EndpointRow) => Promise<T>,
): Promise<T | Rejection> {
  const endpoint = await findEndpoint(deps, caller, id, isRead);
  if (endpoint instanceof Rejection) return endpoint;
  return deps.tenancy.within(tenantOf(caller, [endpoint.organization_id]), async (tenant) => {
    if (isRead) return work(tenant, endpoint);
    // Another request, or a delivery that disables it, may have changed it in the meantime.
    const locked = await readEndpoint(tenant, id, 'FOR NO KEY UPDATE');
    return locked === undefined ? notFound('There is no webhook with this id.') : work(tenant, locked);
  });
}

const time = Type.String({ format: 'date-time' });
export const eventsSchema = Type.Array(
  Type.Unsafe<WebhookEventType>({ type: 'string', enum: [...webhookEventTypes] }),
  { minItems: 1, maxItems: 50, uniqueItems: true, description: 'The types of messages to send.' },
);
export const urlSchema = Type.String({
  minLength: 1,
  description: 'An https URL that is reachable from the Internet. Redirects are not followed.',
});
export const descriptionSchema = Type.String({ maxLength: 300, format: 'plain-line' });
const appIds = Type.Array(Type.String(), {
  minItems: 1,
  maxItems: 100,
  uniqueItems: true,
  description: 'Limits messages to these apps; null: messages of all apps, and of the organization itself.',
});
export const appIdsSchema = nullable(appIds);

export const eventNamesSchema = nullable(
  Type.Array(Type.String({ minLength: 1, maxLength: 128 }), {
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
    description: 'Names of the events to send as event.recorded; required with that type.',
  }),
);

/** Null if event names are given exactly when event.recorded is selected. */
export function eventNamesFault(events: readonly string[], names: readonly string[] | null): Rejection | null {
  if (events.includes('event.recorded') === (names !== null)) return null;
  return invalid(
    'event_names',
    names === null ? 'is required with event.recorded' : 'is only used with event.recorded',
  );
}

const fields = {
  id: Type.String(),
  organization_id: Type.String(),
  url: Type.String({ description: urlForViewers }),
  description: Type.String(),
  events: eventsSchema,
  event_names: eventNamesSchema,
  app_ids: appIdsSchema,
  enabled: Type.Boolean(),
  disabled_reason: nullable(
    Type.Unsafe<DisabledReason>({
      type: 'string',
      enum: [...disabledReasons, null],
      description:
        'requested: disabled through the API. gone: the endpoint answered 410. failing: no delivery succeeded for 5 days. backlog: too many messages were waiting.',
    }),
  ),
  disabled_at: nullable(time),
  failing_since: nullable(
    Type.String({ format: 'date-time', description: 'Time of the first failure since the last success.' }),
  ),
  previous_secret_until: nullable(
    Type.String({
      format: 'date-time',
      description: 'Until this time, messages are also signed with the previous secret.',
    }),
  ),
  created_by: nullable(Type.String({ description: 'The user who created it; null if it was a server key.' })),
  created_at: time,
  updated_at: time,
};

export const endpointSchema = Type.Object(fields, { title: 'WebhookEndpoint' });
export const endpointWithSecretSchema = Type.Object(
  {
    ...fields,
    secret: Type.String({ description: 'Receivers verify signatures with it. Returned only in this answer.' }),
  },
  { title: 'WebhookEndpointWithSecret' },
);
export const endpointParams = Type.Object({
  webhook_id: Type.String({ examples: ['whk_01j9z3k4m5n6p7q8r9s0t1v2w3'] }),
});

export const endpointExample = {
  id: 'whk_01j9z3k4m5n6p7q8r9s0t1v2w3',
  organization_id: 'org_01j9z3k4m5n6p7q8r9s0t1v2w3',
  url: 'https://hooks.example.com/signpost',
  description: 'Warehouse',
  events: ['link.created', 'event.recorded'],
  event_names: ['purchase'],
  app_ids: null,
  enabled: true,
  disabled_reason: null,
  disabled_at: null,
  failing_since: null,
  previous_secret_until: null,
  created_by: 'usr_01j9z3k4m5n6p7q8r9s0t1v2w3',
  created_at: '2026-01-15T09:30:00.000Z',
  updated_at: '2026-01-15T09:30:00.000Z',
};
export const secretExample = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfnX9KzwC8=';
