import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import {
  appIdsSchema,
  descriptionSchema,
  type EndpointRow,
  endpointAnswer,
  endpointColumns,
  endpointExample,
  endpointParams,
  endpointSchema,
  eventNamesFault,
  eventNamesSchema,
  eventsSchema,
  urlSchema,
  withEndpoint,
} from './endpoint.ts';
import { refuseApps } from './endpoint-apps.ts';

/** An unchanged value keeps the time and reason of disabling. */
const change = `
  UPDATE webhook_endpoints SET updated_at = $3, url = $4, description = $5, events = $6, event_names = $9, app_ids = $7,
         disabled_at = CASE WHEN $8 THEN NULL ELSE coalesce(disabled_at, $3) END,
         disabled_reason = CASE WHEN $8 THEN NULL ELSE coalesce(disabled_reason, 'requested') END,
         failing_since = CASE WHEN $8 AND disabled_at IS NULL THEN failing_since END
   WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${endpointColumns}`;

export const updateWebhook = changingRoute({
  method: 'PATCH',
  path: '/webhooks/{webhook_id}',
  operationId: 'updateWebhook',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Update a webhook',
  description:
    'Omitted fields keep their value. While a webhook is disabled, no messages are created for it; messages that were already waiting are delivered when it is enabled again. Messages and attempts of apps that a change of `app_ids` removes are no longer sent, listed, or replayed, and are deleted later.',
  params: endpointParams,
  body: Type.Object(
    {
      url: Type.Optional(urlSchema),
      description: Type.Optional(descriptionSchema),
      events: Type.Optional(eventsSchema),
      event_names: Type.Optional(eventNamesSchema),
      app_ids: Type.Optional(appIdsSchema),
      enabled: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false, minProperties: 1, title: 'WebhookChanges' },
  ),
  bodyExample: { enabled: true },
  answers: { 200: { description: 'The updated webhook.', schema: endpointSchema, example: endpointExample } },
  async handle(deps, { caller, note, params, body }) {
    const refused = body.url === undefined ? null : deps.webhooks.refuseUrl(body.url);
    if (refused) return refused;
    return withEndpoint(deps, caller, params.webhook_id, false, async (tenant, before) => {
      const after = { ...before, ...body };
      const denied = body.app_ids === undefined ? null : await refuseApps(tenant, caller, body.app_ids);
      if (denied) return denied;
      const isEnabled = body.enabled ?? before.disabled_at === null;
      const { url, description, events, event_names, app_ids } = after;
      const fault = eventNamesFault(events, event_names);
      if (fault) return fault;
      const values = [
        params.webhook_id,
        new Date(deps.clock()),
        url,
        description,
        events,
        app_ids,
        isEnabled,
        event_names,
      ];
      const [row] = await tenant.query<EndpointRow>(change, values);
      return {
        status: 200,
        body: endpointAnswer(caller, row ?? before, deps.clock()),
        noted: await note(tenant, before),
      };
    });
  },
});
