import { findOwner, refuseWrite } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { holderOf } from '#api/link-holder.ts';
import { route } from '#api/route.ts';
import { filled } from '#api/utm-filling.ts';
import { invalid, Rejection, taken } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { createLink, type LinkOwner } from '#common/links/link-creation.ts';
import {
  type LinkToCreate,
  type NewLink,
  newLinkBody,
  newLinkFaults,
  withDestination,
} from '#common/links/link-fields.ts';

export const createLinkRoute = route({
  method: 'POST',
  path: '/links',
  operationId: 'createLink',
  caller: 'user',
  scope: 'links:write',
  limit: 'links',
  tag: 'Links',
  summary: 'Create a link',
  description:
    'A path or a url is required. A short code that is taken or reserved is rejected; the existing link does not change.',
  body: newLinkBody,
  needsBody: true,
  bodyFaults: newLinkFaults,
  bodyExample: { app_id: linkExample.app_id, path: '/products/42', campaign: 'summer_sale', short_code: 'summer' },
  answers: { 201: { description: 'The new link.', schema: linkSchema, example: linkExample } },
  handle: async (deps, { caller, body }) => {
    const owner = await findOwner(deps.tenancy, caller, body.app_id);
    if (owner instanceof Rejection) return owner;
    const denied = refuseWrite(caller, owner.organization_id);
    if (denied) return denied;

    const link = await filled(deps.tenancy, caller, owner, body);
    if (link instanceof Rejection) return link;

    const created = await createOrRefuse(deps, owner, storable(link));
    if (created instanceof Rejection) return created;
    // If the code was requested before, redirectors may have cached it as unknown.
    await deps.announce({ kind: 'link', host: created.host, short_code: created.short_code });
    return { status: 201, body: linkAnswer(created, deps.shortUrl) };
  },
});

/** @throws if the body was not validated. */
export function storable({ app_id: _, ...body }: Omit<NewLink, 'utm_template_id'>): LinkToCreate {
  const { path, ...fields } = withDestination(body);
  if (path === undefined) throw new Error('a link without a path or a url was not refused');
  return { ...fields, path };
}

/** Creates a link, or returns why it cannot be created. */
export async function createOrRefuse(
  { tenancy, clock }: Pick<ApiDeps, 'tenancy' | 'clock'>,
  owner: LinkOwner,
  fields: LinkToCreate,
): Promise<LinkRow | Rejection> {
  const creation = await createLink({ tenancy, clock }, owner, 'dashboard', fields);
  switch (creation.kind) {
    case 'taken': {
      const { field } = creation;
      return taken(field, await holderOf(tenancy, owner, field, fields[field] ?? ''));
    }
    case 'no_app':
      return invalid('app_id', 'refers to a deleted app');
    case 'created':
      return creation.link;
  }
}
