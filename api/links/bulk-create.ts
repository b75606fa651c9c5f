import { Type } from 'typebox';
import { absent, refuseWrite, tenantOf } from '#api/access.ts';
import { changingRoute, type UserCaller } from '#api/route.ts';
import { filledFrom, templatesOf } from '#api/utm-filling.ts';
import { parseObject } from '#common/http/json.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { bodyValidator } from '#common/http/validation.ts';
import { isObject } from '#common/json-object.ts';
import { type LinkRow, linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import type { LinkOwner } from '#common/links/link-creation.ts';
import { type NewLink, newLinkBody, newLinkFaults } from '#common/links/link-fields.ts';
import type { Tenancy } from '#common/stores/tenancy.ts';
import { ItemErrorSchema } from './bulk-change.ts';
import { storable } from './create.ts';
import { type BatchItem, createLinks } from './link-batch.ts';

export const BULK_LINKS_MAX = 1_000;
const BODY_BYTES_MAX = 4_194_304;

const body = Type.Object(
  { links: Type.Array(newLinkBody, { minItems: 1, maxItems: BULK_LINKS_MAX }) },
  { title: 'NewLinks' },
);
const checkLink = bodyValidator(newLinkBody);

export const bulkCreateLinks = changingRoute({
  method: 'POST',
  path: '/links/bulk',
  operationId: 'bulkCreateLinks',
  caller: 'user',
  scope: 'links:write',
  limit: 'links',
  tag: 'Links',
  summary: 'Create up to 1,000 links',
  description:
    'Each link is created or rejected independently, as with POST /links; the answer lists the result of each, in the same order. Counts as one request for the rate limit.',
  bodyMode: 'raw',
  bodyBytesMax: BODY_BYTES_MAX,
  body,
  bodyExample: { links: [{ app_id: linkExample.app_id, path: '/products/42', external_id: 'sku-42' }] },
  answers: {
    200: {
      description: 'The result for each link.',
      schema: Type.Object(
        {
          created: Type.Integer(),
          failed: Type.Integer(),
          results: Type.Array(
            Type.Object(
              {
                index: Type.Integer({ description: 'Index in the request.' }),
                status: Type.Unsafe<'created' | 'failed'>({ type: 'string', enum: ['created', 'failed'] }),
                link: Type.Optional(linkSchema),
                error: Type.Optional(ItemErrorSchema),
              },
              { title: 'CreatedItem' },
            ),
          ),
        },
        { title: 'CreatedLinks' },
      ),
      example: { created: 1, failed: 0, results: [{ index: 0, status: 'created', link: linkExample }] },
    },
  },
  async handle(deps, { caller, note, rawBody, header }) {
    if (!/^application\/json\s*(;|$)/i.test(header('content-type'))) {
      return invalid('content-type', 'the header must be application/json');
    }
    const given = readLinks(rawBody);
    if (given instanceof Rejection) return given;
    const checked = given.map((link) => checkLink(link, isObject(link) ? newLinkFaults(link) : []));
    const valid = given.map((link, at) => (checked[at] ? null : (link as NewLink)));
    const owners = await findOwners(deps.tenancy, caller, valid);
    const templates = await templatesOf(deps.tenancy, caller, valid);
    const items: (BatchItem | Rejection)[] = valid.map((link, at) => {
      const owner = checked[at] ?? owners[at] ?? invalid('app_id', 'is required');
      if (owner instanceof Rejection || !link) return owner as Rejection;
      const filled = filledFrom(templates, owner, link);
      return filled instanceof Rejection ? filled : { owner, fields: storable(filled), given: { ...link } };
    });
    const { outcomes, noted } = await createLinks(
      deps,
      items.filter((item): item is BatchItem => !(item instanceof Rejection)),
      note,
    );
    const rows = outcomes.filter((one): one is LinkRow => !(one instanceof Rejection));
    if (rows.length > 0)
      await deps.announce(...rows.map(({ host, short_code }) => ({ kind: 'link', host, short_code }) as const));
    let next = 0;
    const results = items.map((item, index) => {
      const outcome = item instanceof Rejection ? item : outcomes[next++];
      if (!outcome) throw new Error('a link of the batch has no outcome');
      return outcome instanceof Rejection
        ? { index, status: 'failed', ...outcome.body }
        : { index, status: 'created', link: linkAnswer(outcome, deps.shortUrl) };
    });
    return {
      status: 200,
      body: { created: rows.length, failed: results.length - rows.length, results },
      noted,
    };
  },
});

function readLinks(rawBody: Parameters<typeof parseObject>[0]): readonly unknown[] | Rejection {
  const parsed = parseObject(rawBody);
  if ('rejection' in parsed) return parsed.rejection;
  const { links, ...others } = parsed.value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return invalid(unknown, 'is not a known field');
  if (!Array.isArray(links)) return invalid('links', links === undefined ? 'is required' : 'must be array');
  if (links.length === 0 || links.length > BULK_LINKS_MAX)
    return invalid('links', `must have 1 to ${BULK_LINKS_MAX} items`);
  return links;
}

const mine = `SELECT id AS app_id, organization_id FROM apps WHERE organization_id = ANY ($1) AND deleted_at IS NULL
  AND (id = ANY ($2) OR $3) ORDER BY id LIMIT 1002`;

/** The app of each link as POST /links finds it, or why it can't be used. */
function findOwners(
  tenancy: Tenancy,
  caller: UserCaller,
  links: readonly (NewLink | null)[],
): Promise<(LinkOwner | Rejection | null)[]> {
  const asked = [...new Set(links.flatMap((link) => link?.app_id ?? []))];
  const needsOnly = links.some((link) => link && link.app_id === undefined);
  return tenancy.within(tenantOf(caller), async (tenant) => {
    const apps = await tenant.query<LinkOwner>(mine, [asked, false]);
    const [only, another] = needsOnly ? await tenant.query<LinkOwner>(mine, [[], true]) : [];
    const byId = new Map<string | undefined, LinkOwner | Rejection>(apps.map((app) => [app.app_id, app]));
    for (const id of asked) if (!byId.has(id)) byId.set(id, await absent(tenant, 'app', id));
    const why = only ? 'there is more than one app' : 'there is no app yet';
    if (needsOnly) byId.set(undefined, only && !another ? only : invalid('app_id', `is required: ${why}`));
    return links.map((link) => {
      const owner = link && byId.get(link.app_id);
      if (!owner || owner instanceof Rejection) return owner ?? null;
      return refuseWrite(caller, owner.organization_id) ?? owner;
    });
  });
}
