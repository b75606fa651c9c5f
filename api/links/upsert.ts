import { Type } from 'typebox';
import { findOwner, refuseWrite, tenantOf } from '#api/access.ts';
import { nothingChanged } from '#api/audit-trail.ts';
import type { ApiDeps } from '#api/deps.ts';
import { changingRoute, type UserCaller } from '#api/route.ts';
import { filled } from '#api/utm-filling.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { type LinkRow, linkAnswer, linkColumns, linkExample, linkSchema } from '#common/links/link.ts';
import {
  type LinkChanges,
  linkFaults,
  linkFieldNames,
  storedValue,
  upsertedLinkBody,
  withDestination,
} from '#common/links/link-fields.ts';
import { urlFaults } from '#common/links/web-address.ts';
import { createOrRefuse, type NotedLink } from './create.ts';
import { changeLink } from './update.ts';

/**
 * Another request may create or delete the link between two steps; if that happens this often in a row, something is
 * wrong.
 */
const ATTEMPTS_MAX = 5;

export const upsertLink = changingRoute({
  method: 'PUT',
  path: '/links/by-external-id/{app_id}/{external_id}',
  operationId: 'upsertLink',
  caller: 'user',
  scope: 'links:write',
  limit: 'links',
  tag: 'Links',
  summary: 'Create or update the link with an external id',
  description:
    'If the app has a link with this external_id, the given fields are updated, as with PATCH. Otherwise the link is created, which requires a path or a url. Repeating the request changes nothing.',
  params: Type.Object({
    app_id: Type.String({ examples: [linkExample.app_id] }),
    external_id: Type.String({ minLength: 1, maxLength: 255, description: 'Percent-encoded.', examples: ['sku-42'] }),
  }),
  needsBody: true,
  body: upsertedLinkBody,
  bodyFaults: (body) => [...urlFaults(body, ['url']), ...linkFaults(body)],
  bodyExample: { path: '/products/42', campaign: 'summer_sale' },
  answers: {
    200: { description: 'The updated link.', schema: linkSchema, example: { ...linkExample, external_id: 'sku-42' } },
    201: { description: 'The new link.', schema: linkSchema, example: { ...linkExample, external_id: 'sku-42' } },
  },
  async handle(deps, { caller, note, params, body }) {
    const { external_id } = params;
    const owner = await findOwner(deps.tenancy, caller, params.app_id);
    if (owner instanceof Rejection) return owner;
    const denied = refuseWrite(caller, owner.organization_id);
    if (denied) return denied;
    const link = await filled(deps.tenancy, caller, owner, body);
    if (link instanceof Rejection) return link;
    const { path, ...fields } = withDestination(link);
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const known = await byExternalId(deps, caller, params.app_id, external_id);
      if (known) {
        const changes = { ...fields, ...(body.path === undefined ? {} : { path: body.path }) };
        const changed =
          (await unchanged(deps, caller, known, changes)) ??
          (await changeLink(deps, { caller, note }, known.id, changes, body));
        if (changed instanceof Rejection) {
          if (changed.code === 'NOT_FOUND') continue;
          return changed;
        }
        await deps.deliverChanges();
        return { status: 200, body: linkAnswer(changed.link, deps.shortUrl), noted: changed.noted };
      }
      if (path === undefined) return invalid('path', 'is required: there is no link with this external_id yet');
      const created = await createOrRefuse(deps, owner, { ...fields, path, external_id }, note, body);
      if (created instanceof Rejection) {
        // A repeated request violates both unique indexes, and either of them may report the conflict.
        if (created.reason === 'taken' && (await byExternalId(deps, caller, params.app_id, external_id))) continue;
        return created;
      }
      const { host, short_code } = created.link;
      await deps.announce({ kind: 'link', host, short_code });
      return { status: 201, body: linkAnswer(created.link, deps.shortUrl), noted: created.noted };
    }
    throw new Error(`a link was created and deleted ${ATTEMPTS_MAX} times during one request`);
  },
});

const byId = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
  WHERE l.organization_id = ANY ($1) AND l.app_id = $2 AND l.external_id = $3 AND l.deleted_at IS NULL AND a.deleted_at IS NULL`;

async function byExternalId(
  { tenancy }: ApiDeps,
  caller: UserCaller,
  appId: string,
  externalId: string,
): Promise<LinkRow | undefined> {
  const [row] = await tenancy.within(tenantOf(caller), (tenant) => tenant.query<LinkRow>(byId, [appId, externalId]));
  return row;
}

/**
 * The link if it has these values: writing them again would move its `updated_at`, and redirectors would drop their
 * copy. It is read again, since another request may have changed it in the meantime.
 */
async function unchanged(
  { tenancy }: ApiDeps,
  caller: UserCaller,
  link: LinkRow,
  changes: LinkChanges,
): Promise<NotedLink | undefined> {
  const names = linkFieldNames.filter((name) => changes[name] !== undefined);
  const same = names.map((name, at) => ` AND l.${name} IS NOT DISTINCT FROM $${at + 3}`).join('');
  const sql = `SELECT ${linkColumns} FROM links l JOIN apps a ON a.id = l.app_id
    WHERE l.organization_id = ANY ($1) AND l.id = $2 AND l.deleted_at IS NULL AND a.deleted_at IS NULL${same}`;
  const values = names.map((name) => storedValue(name, changes[name]));
  const [found] = await tenancy.within(tenantOf(caller), (tenant) => tenant.query<LinkRow>(sql, [link.id, ...values]));
  return found && { link: found, noted: nothingChanged };
}
