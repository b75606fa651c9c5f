import { Type } from 'typebox';
import { chooseOrganization, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import { newWebhookSecret, webhookSecretContext } from '#common/webhooks/webhook-secret.ts';
import {
  appIdsSchema,
  descriptionSchema,
  type EndpointRow,
  endpointAnswer,
  endpointColumns,
  endpointExample,
  endpointWithSecretSchema,
  eventNamesFault,
  eventNamesSchema,
  eventsSchema,
  secretExample,
  urlSchema,
} from './endpoint.ts';
import { refuseApps } from './endpoint-apps.ts';

const ENDPOINTS_MAX = 50;

/** It gets the records that are stored from now on by Postgres' clock, which stamps them. Lists are ordered by the millisecond. */
const insertion = `
  INSERT INTO webhook_endpoints (id, organization_id, url, description, events, event_names, app_ids, secret_ciphertext, created_by, created_at, updated_at)
  SELECT $2, o.id, $3, $4, $5, $6, $7, $8, $9, at, at FROM date_trunc('milliseconds', now()) AS at, unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('webhooks', o.id, ${ENDPOINTS_MAX})
  RETURNING ${endpointColumns}`;

export const createWebhook = changingRoute({
  method: 'POST',
  path: '/webhooks',
  operationId: 'createWebhook',
  showsSecret: true,
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Create a webhook',
  description: 'Each of the chosen events sends a POST request to the URL.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
      ),
      url: urlSchema,
      description: Type.Optional(descriptionSchema),
      events: eventsSchema,
      event_names: Type.Optional(eventNamesSchema),
      app_ids: Type.Optional(appIdsSchema),
    },
    { additionalProperties: false, title: 'NewWebhook' },
  ),
  bodyExample: {
    url: endpointExample.url,
    events: endpointExample.events,
    event_names: endpointExample.event_names,
  },
  answers: {
    201: {
      description: 'The new webhook, with its secret.',
      schema: endpointWithSecretSchema,
      example: { ...endpointExample, secret: secretExample },
    },
  },
  async handle({ db, tenancy, clock, webhooks }, { caller, note, body }) {
    const organizationId = await chooseOrganization(db, caller, body.organization_id);
    if (organizationId instanceof Rejection) return organizationId;
    const { url, events, event_names = null, description = '', app_ids = null } = body;
    const refused =
      refuseWrite(caller, organizationId) ?? webhooks.refuseUrl(url) ?? eventNamesFault(events, event_names);
    if (refused) return refused;
    const nowMs = clock();
    const id = newId('whk', nowMs);
    const secret = newWebhookSecret();
    const sealed = webhooks.encryption.encrypt(secret, webhookSecretContext(id));
    // A server key is not a user.
    const creator = caller.key ? null : caller.user_id;
    return tenancy.within(tenantOf(caller, [organizationId]), async (tenant) => {
      const denied = await refuseApps(tenant, caller, app_ids);
      if (denied) return denied;
      const values = [id, url, description, events, event_names, app_ids, sealed, creator];
      const [row] = await tenant.query<EndpointRow>(insertion, values);
      if (!row) return invalid('body', `the organization has ${ENDPOINTS_MAX} webhooks: delete one first`);
      return { status: 201, body: { ...endpointAnswer(caller, row, nowMs), secret }, noted: await note(tenant, row) };
    });
  },
});
