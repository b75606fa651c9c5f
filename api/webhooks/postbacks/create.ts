import { Type } from 'typebox';
import { chooseOrganization, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { refuseApps } from '#api/webhooks/endpoint-apps.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { newId } from '#common/ids.ts';
import {
  contentFault,
  contentFields,
  type PostbackRow,
  postbackAnswer,
  postbackColumns,
  postbackExample,
  postbackSchema,
} from './postback.ts';

const POSTBACKS_MAX = 50;

const insertion = `
  INSERT INTO webhook_endpoints (id, organization_id, postback_method, url, postback_body, description, events, event_names, campaigns, app_ids,
                                 created_by, created_at, updated_at)
  SELECT $2, o.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, at, at FROM date_trunc('milliseconds', now()) AS at, unnest($1::text[]) AS o (id)
   WHERE signpost_has_room('postbacks', o.id, ${POSTBACKS_MAX})
  RETURNING ${postbackColumns}`;

export const createPostback = changingRoute({
  method: 'POST',
  path: '/postbacks',
  operationId: 'createPostback',
  caller: 'user',
  scope: 'webhooks',
  limit: 'general',
  tag: 'Webhooks',
  summary: 'Create a postback',
  description: 'Each chosen install or event sends a request to an ad network, built from the template.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a user who belongs to exactly one organization.' }),
      ),
      method: Type.Optional(contentFields.method),
      url: contentFields.url,
      body: Type.Optional(contentFields.body),
      description: Type.Optional(contentFields.description),
      events: contentFields.events,
      event_names: Type.Optional(contentFields.event_names),
      campaigns: Type.Optional(contentFields.campaigns),
      app_ids: Type.Optional(contentFields.app_ids),
    },
    { additionalProperties: false, title: 'NewPostback' },
  ),
  bodyExample: { url: postbackExample.url, events: postbackExample.events, event_names: postbackExample.event_names },
  answers: { 201: { description: 'The new postback.', schema: postbackSchema, example: postbackExample } },
  async handle({ db, tenancy, clock, webhooks }, { caller, note, body: given }) {
    const organizationId = await chooseOrganization(db, caller, given.organization_id);
    if (organizationId instanceof Rejection) return organizationId;
    const { method = 'GET', url, body = null, description = '', events, event_names = null } = given;
    const { campaigns = null, app_ids = null } = given;
    const refused =
      refuseWrite(caller, organizationId) ??
      contentFault({ method, url, body, events, event_names }, webhooks.refuseUrl);
    if (refused) return refused;
    // A server key is not a user.
    const creator = caller.key ? null : caller.user_id;
    return tenancy.within(tenantOf(caller, [organizationId]), async (tenant) => {
      const denied = await refuseApps(tenant, caller, app_ids);
      if (denied) return denied;
      const content = [method, url, body, description, events, event_names, campaigns, app_ids];
      const values = [newId('pbk', clock()), ...content, creator];
      const [row] = await tenant.query<PostbackRow>(insertion, values);
      if (!row) return invalid('body', `the organization has ${POSTBACKS_MAX} postbacks: delete one first`);
      return { status: 201, body: postbackAnswer(caller, row), noted: await note(tenant, row) };
    });
  },
});
