import { findOwner, refuseWrite } from '#api/access.ts';
import type { Note, Noted } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import { holderOf } from '#api/link-holder.ts';
import { changingRoute } from '#api/route.ts';
import { filled } from '#api/utm-filling.ts';
import { invalid, invalidFields, Rejection, taken } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { createLink, type LinkOwner } from '#common/links/link-creation.ts';
import {
  type LinkToCreate,
  type NewLink,
  newLinkBody,
  newLinkFaults,
  withDestination,
} from '#common/links/link-fields.ts';
import { asGiven } from '#common/redirect/loops.ts';

export const createLinkRoute = changingRoute({
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
  handle: async (deps, { caller, body, note }) => {
    const owner = await findOwner(deps.tenancy, caller, body.app_id);
    if (owner instanceof Rejection) return owner;
    const denied = refuseWrite(caller, owner.organization_id);
    if (denied) return denied;

    const link = await filled(deps.tenancy, caller, owner, body);
    if (link instanceof Rejection) return link;

    const created = await createOrRefuse(deps, owner, storable(link), note, body);
    if (created instanceof Rejection) return created;
    // If the code was requested before, redirectors may have cached it as unknown.
    const { host, short_code } = created.link;
    await deps.announce({ kind: 'link', host, short_code });
    return { status: 201, body: linkAnswer(created.link, deps.shortUrl), noted: created.noted };
  },
});

/** @throws if the body was not validated. */
export function storable({ app_id: _, ...body }: Omit<NewLink, 'utm_template_id'>): LinkToCreate {
  const { path, ...fields } = withDestination(body);
  if (path === undefined) throw new Error('a link without a path or a url was not refused');
  return { ...fields, path };
}

export interface NotedLink {
  readonly link: LinkRow;
  readonly noted: Noted;
}

/** Creates a link, or returns why it cannot be created. @param given the fields as the caller named them. */
export async function createOrRefuse(
  { tenancy, clock }: Pick<ApiDeps, 'tenancy' | 'clock'>,
  owner: LinkOwner,
  fields: LinkToCreate,
  note: Note,
  given: Readonly<Record<string, unknown>>,
): Promise<NotedLink | Rejection> {
  const creation = await createLink({ tenancy, clock, also: note }, owner, 'dashboard', fields);
  switch (creation.kind) {
    case 'taken': {
      const { field } = creation;
      return taken(field, await holderOf(tenancy, owner, field, fields[field] ?? ''));
    }
    case 'loops':
      return invalidFields(asGiven(creation.faults, given));
    case 'no_app':
      return invalid('app_id', 'refers to a deleted app');
    case 'created':
      return { link: creation.link, noted: creation.also };
  }
}
