import { Type } from 'typebox';
import { changingRoute } from '#api/route.ts';
import { refuseApps } from '#api/webhooks/endpoint-apps.ts';
import {
  contentFault,
  contentFields,
  type PostbackRow,
  postbackAnswer,
  postbackColumns,
  postbackExample,
  postbackParams,
  postbackSchema,
  withPostback,
} from './postback.ts';

/** An unchanged value keeps the time and reason of disabling. */
const change = `
  UPDATE webhook_endpoints SET updated_at = $3, postback_method = $4, url = $5, postback_body = $6, description = $7, events = $8, event_names = $9,
         campaigns = $10, app_ids = $11,
         disabled_at = CASE WHEN $12 THEN NULL ELSE coalesce(disabled_at, $3) END,
         disabled_reason = CASE WHEN $12 THEN NULL ELSE coalesce(disabled_reason, 'requested') END,
         failing_since = CASE WHEN $12 AND disabled_at IS NULL THEN failing_since END
   WHERE organization_id = ANY ($1) AND id = $2 RETURNING ${postbackColumns}`;

export const updatePostback = changingRoute({
  method: 'PATCH',
  path: '/postbacks/{postback_id}',
  operationId: 'updatePostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Update a postback',
  description:
    'Omitted fields keep their value. While a postback is disabled, no messages are created for it; messages that were already waiting are sent when it is enabled again, with the new template. Messages and attempts of apps that a change of `app_ids` removes are no longer sent, listed, or replayed, and are deleted later.',
  params: postbackParams,
  body: Type.Object(
    { ...Type.Partial(Type.Object(contentFields)).properties, enabled: Type.Optional(Type.Boolean()) },
    { additionalProperties: false, minProperties: 1, title: 'PostbackChanges' },
  ),
  bodyExample: { enabled: true },
  answers: { 200: { description: 'The updated postback.', schema: postbackSchema, example: postbackExample } },
  handle: (deps, { caller, note, params, body: given }) =>
    withPostback(deps, caller, params.postback_id, false, async (tenant, before) => {
      const after = { ...before, ...given };
      const fault = contentFault(after, deps.webhooks.refuseUrl);
      if (fault) return fault;
      const denied = given.app_ids === undefined ? null : await refuseApps(tenant, caller, given.app_ids);
      if (denied) return denied;
      const { method, url, body, description, events, event_names, campaigns, app_ids } = after;
      const content = [method, url, body, description, events, event_names, campaigns, app_ids];
      const isEnabled = given.enabled ?? before.disabled_at === null;
      const values = [before.id, new Date(deps.clock()), ...content, isEnabled];
      const [row] = await tenant.query<PostbackRow>(change, values);
      return { status: 200, body: postbackAnswer(caller, row ?? before), noted: await note(tenant, before) };
    }),
});
