/** A postback as stored in Postgres and as returned by the API. It shares the table, the messages and the attempts of webhooks. */
import { Type } from 'typebox';
import { tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import type { UserCaller } from '#api/route.ts';
import {
  appIdsSchema,
  descriptionSchema,
  endpointExample,
  endpointSchema,
  eventNamesFault,
  eventNamesSchema,
  findEndpoint,
} from '#api/webhooks/endpoint.ts';
import { maySeeSecrets, shownUrl, urlForViewers } from '#api/webhooks/shown-url.ts';
import type { UrlRule } from '#api/webhooks/url-rule.ts';
import { invalid, notFound, Rejection } from '#common/http/rejection.ts';
import { nullable } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import {
  type PostbackEvent,
  type PostbackMethod,
  postbackEvents,
  postbackMacros,
  postbackMethods,
  sampleUrl,
  TEMPLATE_CHARACTERS_MAX,
  templateFault,
} from '#common/webhooks/postback-template.ts';
import type { DisabledReason } from '#common/webhooks/webhook-events.ts';

export interface PostbackRow {
  readonly id: string;
  readonly organization_id: string;
  readonly method: PostbackMethod;
  readonly url: string;
  readonly body: string | null;
  readonly description: string;
  readonly events: readonly PostbackEvent[];
  readonly event_names: readonly string[] | null;
  readonly campaigns: readonly string[] | null;
  readonly app_ids: readonly string[] | null;
  readonly created_by: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly failing_since: Date | null;
  readonly disabled_at: Date | null;
  readonly disabled_reason: DisabledReason | null;
}

export const postbackColumns = `id, organization_id, postback_method AS method, url, postback_body AS body, description, events, event_names,
  campaigns, app_ids, created_by, created_at, updated_at, failing_since, disabled_at, disabled_reason`;

export function postbackAnswer(caller: UserCaller, row: PostbackRow): object {
  const { disabled_at, failing_since, created_at, updated_at, ...fields } = row;
  return {
    ...fields,
    url: shownUrl(caller, row.organization_id, row.url),
    body: maySeeSecrets(caller, row.organization_id) ? row.body : null,
    enabled: disabled_at === null,
    disabled_at: disabled_at?.toISOString() ?? null,
    failing_since: failing_since?.toISOString() ?? null,
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
  };
}

/** Runs the work on a postback that the caller may change (or, with `isRead`, read), within its tenant. */
export async function withPostback<T>(
  deps: ApiDeps,
  caller: UserCaller,
  id: string,
  isRead: boolean,
  work: (tenant: TenantQueries, postback: PostbackRow) => Promise<T>,
): Promise<T | Rejection> {
  const endpoint = await findEndpoint(deps, caller, id, isRead, 'pbk');
  if (endpoint instanceof Rejection) return endpoint;
  return deps.tenancy.within(tenantOf(caller, [endpoint.organization_id]), async (tenant) => {
    const lock = isRead ? '' : 'FOR NO KEY UPDATE';
    const sql = `SELECT ${postbackColumns} FROM webhook_endpoints WHERE organization_id = ANY ($1) AND id = $2 ${lock}`;
    const [row] = await tenant.query<PostbackRow>(sql, [id]);
    return row === undefined ? notFound('There is no postback with this id.') : await work(tenant, row);
  });
}

type Content = Pick<PostbackRow, 'method' | 'url' | 'body' | 'events' | 'event_names'>;

/** Null if the postback is valid. */
export function contentFault(
  { method, url, body, events, event_names }: Content,
  refuseUrl: UrlRule,
): Rejection | null {
  const fault = templateFault(url);
  if (fault !== null) return invalid('url', fault);
  const sample = sampleUrl(url);
  if (sample === null) return invalid('url', 'must have its macros after the host, with a / or ? before them');
  const bodyFault = body === null ? null : templateFault(body);
  if (bodyFault !== null) return invalid('body', bodyFault);
  if (body !== null && method === 'GET') return invalid('body', 'is only sent with POST');
  return refuseUrl(sample) ?? eventNamesFault(events, event_names);
}

const time = Type.String({ format: 'date-time' });
const macros = postbackMacros.map((name) => `{${name}}`).join(' ');
export const contentFields = {
  method: Type.Unsafe<PostbackMethod>({ type: 'string', enum: [...postbackMethods] }),
  url: Type.String({
    minLength: 1,
    description: `A template of an https URL. Macros, whose values are percent-encoded: ${macros}, a parameter of the click's URL. ${urlForViewers}`,
  }),
  body: nullable(
    Type.String({
      maxLength: TEMPLATE_CHARACTERS_MAX,
      description: 'Template of the body, sent with POST as application/x-www-form-urlencoded. Viewers get null.',
    }),
  ),
  description: descriptionSchema,
  events: Type.Array(Type.Unsafe<PostbackEvent>({ type: 'string', enum: [...postbackEvents] }), {
    minItems: 1,
    maxItems: postbackEvents.length,
    uniqueItems: true,
    description: 'The records for which it is sent.',
  }),
  event_names: eventNamesSchema,
  campaigns: nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Limits the postback to these campaigns; null: all campaigns, and records without one.',
    }),
  ),
  app_ids: appIdsSchema,
};

export const postbackSchema = Type.Object(
  {
    id: Type.String(),
    organization_id: Type.String(),
    ...contentFields,
    enabled: Type.Boolean(),
    disabled_reason: endpointSchema.properties.disabled_reason,
    disabled_at: nullable(time),
    failing_since: endpointSchema.properties.failing_since,
    created_by: endpointSchema.properties.created_by,
    created_at: time,
    updated_at: time,
  },
  { title: 'Postback' },
);
export const postbackParams = Type.Object({
  postback_id: Type.String({ examples: ['pbk_01j9z3k4m5n6p7q8r9s0t1v2w3'] }),
});

const { id: _id, url: _url, previous_secret_until: _until, ...shared } = endpointExample;
export const postbackExample = {
  id: 'pbk_01j9z3k4m5n6p7q8r9s0t1v2w3',
  ...shared,
  method: 'GET',
  url: 'https://network.example/postback?click={query.gclid}&event={event_name}&value={revenue}&currency={currency}',
  body: null,
  description: 'Purchases',
  events: ['event.recorded'],
  campaigns: ['summer_sale'],
};
