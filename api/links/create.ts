import { findOwner, refuseWrite } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { route } from '#api/route.ts';
import { invalid, Rejection, taken } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkExample, linkSchema, linkWithCode } from '#common/links/link.ts';
import { createLink, type LinkOwner } from '#common/links/link-creation.ts';
import {
  type LinkToCreate,
  type NewLink,
  newLinkBody,
  newLinkFaults,
  withDestination,
} from '#common/links/link-fields.ts';
import { allApps, type Tenancy } from '#common/stores/tenancy.ts';

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

    const created = await createOrRefuse(deps, owner, storable(body));
    if (created instanceof Rejection) return created;
    // A redirector may remember the code as unknown, if it was requested before.
    await deps.announce({ kind: 'link', host: created.host, short_code: created.short_code });
    return { status: 201, body: linkAnswer(created, deps.shortUrl) };
  },
});

/** @throws if the body was not validated. */
export function storable({ app_id: _, ...body }: NewLink): LinkToCreate {
  const { path, ...fields } = withDestination(body);
  if (path === undefined) throw new Error('a link without a path or a url was not refused');
  return { ...fields, path };
}

/** Creates a link, or says what prevents it. */
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

const byExternalId = `SELECT id FROM links
  WHERE organization_id = ANY ($1) AND app_id = $2 AND external_id = $3 AND deleted_at IS NULL`;
const byCode = `SELECT l.id FROM apps a CROSS JOIN ${linkWithCode('$3')} JOIN links l ON l.id = h.link_id
  WHERE a.organization_id = ANY ($1) AND a.id = $2 AND l.deleted_at IS NULL`;

/** The link of the app that has the short code or the external id; null if that one is deleted. */
export async function holderOf(
  tenancy: Tenancy,
  owner: LinkOwner,
  field: 'short_code' | 'external_id',
  value: string,
): Promise<string | null> {
  const sql = field === 'short_code' ? byCode : byExternalId;
  const [holder] = await tenancy.within(allApps([owner.organization_id]), (tenant) =>
    tenant.query<{ id: string }>(sql, [owner.app_id, value]),
  );
  return holder?.id ?? null;
}
