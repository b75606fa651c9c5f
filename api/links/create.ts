import { absent, refuseWrite, tenantOf } from '#api/access.ts';
import { route, type UserCaller } from '#api/route.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { createLink, type LinkOwner } from '#common/links/link-creation.ts';
import { linkFaults, newLinkBody } from '#common/links/link-fields.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';

export const createLinkRoute = route({
  method: 'POST',
  path: '/links',
  operationId: 'createLink',
  caller: 'user',
  scope: 'links:write',
  limit: 'links',
  tag: 'Links',
  summary: 'Create a link',
  description: 'A short code that is taken or reserved is rejected; the existing link does not change.',
  body: newLinkBody,
  bodyFaults: linkFaults,
  bodyExample: { app_id: linkExample.app_id, path: '/products/42', campaign: 'summer_sale', short_code: 'summer' },
  answers: { 201: { description: 'The new link.', schema: linkSchema, example: linkExample } },
  handle: async ({ tenancy, clock, announce, shortUrl }, { caller, body }) => {
    const owner = await findOwner(tenancy, caller, body.app_id);
    if (owner instanceof Rejection) return owner;
    const denied = refuseWrite(caller, owner.organization_id);
    if (denied) return denied;

    const creation = await createLink({ tenancy, clock }, owner, 'dashboard', body);
    switch (creation.kind) {
      case 'taken':
        return invalid(creation.field, 'is already used by another link of this app');
      case 'no_app':
        return invalid('app_id', 'refers to a deleted app');
      case 'created': {
        const { link } = creation;
        // A redirector may remember the code as unknown, if it was requested before.
        await announce({ kind: 'link', host: link.host, short_code: link.short_code });
        return { status: 201, body: linkAnswer(link, shortUrl) };
      }
    }
  },
});

const anyOfMine = `SELECT id AS app_id, organization_id FROM apps
  WHERE organization_id = ANY ($1) AND deleted_at IS NULL AND ($2::text IS NULL OR id = $2) LIMIT 2`;

/** The requested app, or the only one that the caller can see. */
function findOwner(tenancy: Tenancy, caller: UserCaller, appId: string | undefined): Promise<LinkOwner | Rejection> {
  return tenancy.within(tenantOf(caller), async (tenant) => {
    const [app, another] = await tenant.query<LinkOwner>(anyOfMine, [appId ?? null]);
    if (appId !== undefined) return app ?? absent(tenant, 'app', appId);
    if (!app) return invalid('app_id', 'is required: there is no app yet');
    return another ? invalid('app_id', 'is required: there is more than one app') : app;
  });
}
