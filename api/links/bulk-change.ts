/** Changes or deletes many links, named by their ids or by a filter. */
import { type Static, Type } from 'typebox';
import { onlyViewing, refuseApp, refuseOrganization, refuseWrite, tenantOf } from '#api/access.ts';
import type { Noted } from '#api/audit-trail.ts';
import { errorDetailsSchema } from '#api/error-details.ts';
import { type ChangeRequest, changingRoute, type UserCaller } from '#api/route.ts';
import { readFilter } from '#api/value-filter.ts';
import type { Clock } from '#common/clock.ts';
import {
  type FieldError,
  invalid,
  invalidFields,
  notFound,
  Rejection,
  statusOf,
  unavailable,
} from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import { linkExample } from '#common/links/link.ts';
import {
  type LinkChanges,
  linkFaults,
  linkFieldNames,
  sharedChangesBody,
  storedValue,
  TAGS_MAX,
} from '#common/links/link-fields.ts';
import { linkLoops } from '#common/redirect/loops.ts';
import { givenLink } from '#common/redirect/own-links.ts';
import { isStorableTime } from '#common/storable-time.ts';
import type { Queries } from '#common/stores/postgres.ts';
import type { Tenancy, TenantQueries } from '#common/stores/tenancy.ts';
import { noteLinks } from './changed-links.ts';
import { type LinkFilters, matchingIds } from './selection.ts';

const IDS_MAX = 1_000;
/** One transaction, in statements that a busy Postgres completes before its timeout. */
const FILTERED_MAX = 10_000;
const STATEMENT_LINKS_MAX = 1_000;
/** No further statement begins after it, so that a request that is answered with a timeout has changed nothing. */
const CHANGE_MS_MAX = 15_000;

/** Thrown to undo the transaction. */
class TooSlow extends Error {}

export const ItemErrorSchema = Type.Object(
  {
    code: Type.Unsafe<string>({ type: 'string', enum: Object.keys(statusOf) }),
    message: Type.String(),
    details: Type.Optional(Type.Unsafe<object>(errorDetailsSchema)),
  },
  { title: 'ItemError' },
);

const filter = Type.Object(
  {
    organization_id: Type.Optional(
      Type.String({
        description: 'Default: all organizations in which you may write. Not sufficient as the only filter.',
      }),
    ),
    app_id: Type.Optional(Type.String()),
    campaign: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    tag: Type.Optional(Type.String({ minLength: 1, maxLength: 4_000 })),
    search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    archived: Type.Optional(Type.Boolean()),
    created_after: Type.Optional(Type.String({ format: 'date-time' })),
    created_before: Type.Optional(Type.String({ format: 'date-time' })),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    title: 'LinkFilter',
    description: `As in GET /links. A filter that matches more than ${FILTERED_MAX} links is rejected.`,
  },
);
const which = {
  ids: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 1,
      maxItems: IDS_MAX,
      uniqueItems: true,
      description: 'The links to change. Give either ids or a filter.',
    }),
  ),
  filter: Type.Optional(filter),
};
type Which = { readonly ids?: readonly string[]; readonly filter?: Static<typeof filter> };

const failures = Type.Array(Type.Object({ id: Type.String(), error: ItemErrorSchema }, { title: 'FailedItem' }), {
  description: 'The ids that were rejected.',
});

function whichFaults(body: Readonly<Record<string, unknown>>): FieldError[] {
  if ((body['ids'] === undefined) === (body['filter'] === undefined))
    return [{ field: 'ids', message: 'either ids or filter is required' }];
  const filter = isObject(body['filter']) ? body['filter'] : {};
  // An empty filter would match every link.
  if (Object.keys(filter).join() === 'organization_id')
    return [{ field: 'filter', message: 'needs another field besides organization_id' }];
  return ['created_after', 'created_before']
    .filter((name) => typeof filter[name] === 'string' && !isStorableTime(filter[name]))
    .map((name) => ({ field: `filter.${name}`, message: 'must be a time from 1970 to 9999' }));
}

function changeFaults(changes: Readonly<Record<string, unknown>>): FieldError[] {
  const mixed = ['add_tags', 'remove_tags'].filter(
    (name) => changes[name] !== undefined && changes['tags'] !== undefined,
  );
  return [
    ...linkFaults(changes),
    ...mixed.map((field) => ({ field, message: 'cannot be used together with tags, which replaces all of them' })),
  ];
}

export const bulkUpdateLinks = changingRoute({
  method: 'PATCH',
  path: '/links/bulk',
  operationId: 'bulkUpdateLinks',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Update many links',
  description: `Up to ${IDS_MAX} ids, or all links that match a filter, at most ${FILTERED_MAX}. Short codes and external ids are unique to one link and can't be changed here.`,
  bodyBytesMax: 262_144,
  needsBody: true,
  body: Type.Object(
    { ...which, changes: sharedChangesBody },
    { additionalProperties: false, title: 'BulkLinkChanges' },
  ),
  bodyFaults: (body) => [
    ...whichFaults(body),
    ...(isObject(body['changes']) ? changeFaults(body['changes']) : []).map(({ field, message }) => ({
      field: `changes.${field}`,
      message,
    })),
  ],
  bodyExample: { filter: { campaign: 'summer_sale' }, changes: { archived: true } },
  answers: {
    200: {
      description: 'The links are updated.',
      schema: Type.Object({ updated: Type.Integer(), failed: failures }, { title: 'UpdatedLinks' }),
      example: { updated: 12, failed: [] },
    },
  },
  async handle({ db, tenancy, clock, deliverChanges }, { caller, note, body }) {
    const { changes } = body;
    const names = linkFieldNames.filter((name) => Reflect.get(changes, name) !== undefined);
    const values = names.map((name) => storedValue(name, Reflect.get(changes, name)));
    const assignments = names.map((name, at) => `, ${name} = $${at + 4}`).join('');
    const { add_tags = [], remove_tags = [] } = changes;
    const tags = tagsWith(`$${values.length + 4}`, `$${values.length + 5}`);
    const done = await changeLinks(
      { db, tenancy, clock },
      { caller, note },
      body,
      add_tags.length + remove_tags.length === 0
        ? { fields: changes, assignments, values }
        : {
            fields: changes,
            assignments: `${assignments}, tags = ${tags}`,
            condition: ` AND cardinality(${tags}) <= ${TAGS_MAX}`,
            values: [...values, add_tags, remove_tags],
          },
    );
    if (done instanceof Rejection) return done;
    await deliverChanges();
    return {
      status: 200,
      body: { updated: done.changed.length, failed: done.failed },
      noted: done.noted,
    };
  },
});

export const bulkDeleteLinks = changingRoute({
  method: 'DELETE',
  path: '/links/bulk',
  operationId: 'bulkDeleteLinks',
  caller: 'user',
  scope: 'links:write',
  limit: 'general',
  tag: 'Links',
  summary: 'Delete many links',
  description: `Up to ${IDS_MAX} ids, or all links that match a filter, at most ${FILTERED_MAX}.`,
  bodyBytesMax: 262_144,
  needsBody: true,
  body: Type.Object(which, { additionalProperties: false, title: 'WhichLinks' }),
  bodyFaults: whichFaults,
  bodyExample: { ids: [linkExample.id] },
  answers: {
    200: {
      description: 'The links are deleted.',
      schema: Type.Object({ deleted: Type.Integer(), failed: failures }, { title: 'DeletedLinks' }),
      example: { deleted: 1, failed: [] },
    },
  },
  async handle({ db, tenancy, clock, deliverChanges }, { caller, note, body }) {
    const change = { fields: {}, assignments: ', deleted_at = $3', values: [] };
    const done = await changeLinks({ db, tenancy, clock }, { caller, note }, body, change);
    if (done instanceof Rejection) return done;
    await deliverChanges();
    return {
      status: 200,
      body: { deleted: done.changed.length, failed: done.failed },
      noted: done.noted,
    };
  },
});

interface ChangedLink {
  readonly id: string;
  readonly app_id: string;
  readonly organization_id: string;
}

interface Changed {
  readonly changed: readonly ChangedLink[];
  readonly failed: readonly { readonly id: string; readonly error: unknown }[];
  readonly noted: Noted;
}

/** Locked in the order of their ids, so that two requests cannot deadlock. */
const lock = `SELECT l.id FROM links l JOIN apps a ON a.id = l.app_id
  WHERE l.organization_id = ANY ($1) AND l.id = ANY ($2) AND l.deleted_at IS NULL AND a.deleted_at IS NULL
  ORDER BY l.id FOR NO KEY UPDATE OF l`;

/** The tags of a link without the removed tags and with the added tags, in the order in which they were given. */
const tagsWith = (added: string, removed: string) => `ARRAY(
  SELECT t.tag FROM unnest(tags || ${added}::text[]) WITH ORDINALITY AS t (tag, n)
   WHERE t.tag <> ALL (${removed}::text[]) GROUP BY t.tag ORDER BY min(t.n))`;

interface Change {
  /** What the assignments set, as given. */
  readonly fields: LinkChanges;
  /** Assignments besides updated_at; their values start at `$4`. */
  readonly assignments: string;
  readonly values: readonly unknown[];
  /** Links for which it is false are rejected, because they would have too many tags. */
  readonly condition?: string;
}

async function changeLinks(
  { db, tenancy, clock }: { readonly db: Queries; readonly tenancy: Tenancy; readonly clock: Clock },
  { caller, note }: ChangeRequest,
  { ids, filter }: Which,
  { fields: changes, assignments, values, condition = '' }: Change,
): Promise<Changed | Rejection> {
  const organizations = await writableOrganizations(db, caller, filter?.organization_id);
  if (organizations instanceof Rejection) return organizations;
  const now = new Date(clock());
  const work = async (tenant: TenantQueries): Promise<Changed | Rejection> => {
    const filters = ids === undefined ? await filtersOf(tenant, filter ?? {}) : null;
    if (filters instanceof Rejection) return filters;
    const wanted = ids ?? (await matchingIds(tenant, filters ?? {}, FILTERED_MAX + 1));
    if (filters !== null && wanted.length > FILTERED_MAX) return tooManyLinks;
    const found = (await tenant.query<{ id: string }>(lock, [wanted])).map(({ id }) => id);
    // Another request may have changed a link while this one waited for its lock.
    const locked = filters === null ? found : await matchingIds(tenant, filters, FILTERED_MAX, found);
    const changed: ChangedLink[] = [];
    const update = `UPDATE links SET updated_at = $3${assignments}
        WHERE organization_id = ANY ($1) AND id = ANY ($2)${condition} RETURNING id, organization_id, app_id`;
    for (let at = 0; at < locked.length; at += STATEMENT_LINKS_MAX) {
      if (clock() - now.getTime() > CHANGE_MS_MAX) throw new TooSlow();
      const some = locked.slice(at, at + STATEMENT_LINKS_MAX);
      changed.push(...(await tenant.query<ChangedLink>(update, [some, now, ...values])));
    }
    const loops = await loopsOf(tenant, changed, changes, now.getTime());
    if (loops.length > 0) throw new LeadsBack(loops);
    const [known, done] = [new Set(locked), new Set(changed.map(({ id }) => id))];
    const failed = [
      ...(ids ?? []).filter((id) => !known.has(id)).map((id) => ({ id, ...missing.body })),
      ...locked.filter((id) => !done.has(id)).map((id) => ({ id, ...tooManyTags.body })),
    ];
    return { changed, failed, noted: await noteLinks(note, tenant, changed) };
  };
  try {
    return await tenancy.within(tenantOf(caller, organizations), work);
  } catch (error) {
    if (error instanceof LeadsBack) return invalidFields(error.faults);
    if (!(error instanceof TooSlow)) throw error;
    return unavailable('The change took too long, and nothing was changed. Try again later, or change fewer links.');
  }
}

/** The transaction ends without the changes. */
class LeadsBack extends Error {
  readonly faults: readonly FieldError[];

  constructor(faults: readonly FieldError[]) {
    super('the destinations lead back');
    this.faults = faults;
  }
}

/** A loop that the changes made leads over one of their destinations, so only these are followed. */
async function loopsOf(
  tenant: TenantQueries,
  changed: readonly ChangedLink[],
  { expired_url, ...changes }: Change['fields'],
  nowMs: number,
): Promise<FieldError[]> {
  const given = {
    ...changes,
    ...(expired_url ? { expired_url, max_clicks: 1 } : {}),
    archived: false,
    expires_at: null,
  };
  if (!['ios_url', 'android_url', 'fallback_url', 'rules', 'expired_url'].some((name) => name in given)) return [];
  const apps = [...new Set(changed.map(({ app_id }) => app_id))];
  const links = apps.map((app_id) => givenLink({ ...given, id: `changes ${app_id}`, app_id }));
  const [faults = []] = (await linkLoops(tenant, links, nowMs)).filter((some) => some.length > 0);
  return faults
    .filter(({ field }) => (field.split('[')[0] ?? '') in given)
    .map(({ field, message }) => ({ field: `changes.${field}`, message }));
}

/** The requested organization, or all organizations in which the caller may write. */
async function writableOrganizations(
  db: Queries,
  caller: UserCaller,
  asked: string | undefined,
): Promise<readonly string[] | Rejection> {
  if (asked !== undefined) {
    return (await refuseOrganization(db, caller, asked)) ?? refuseWrite(caller, asked) ?? [asked];
  }
  const writable = caller.memberships.filter(({ role }) => role !== 'viewer');
  if (caller.memberships.length > 0 && writable.length === 0) return onlyViewing();
  return writable.map(({ organization_id }) => organization_id);
}

const missing = notFound('There is no link with this id that you may change.');
const tooManyTags = invalid('changes.add_tags', `the link would have more than ${TAGS_MAX} tags`);

const tooManyLinks = invalid(
  'filter',
  `matches more than ${FILTERED_MAX} links: narrow it, for example by created_after`,
);

async function filtersOf(
  tenant: TenantQueries,
  filter: NonNullable<Which['filter']>,
): Promise<LinkFilters | Rejection> {
  const refused = await refuseApp(tenant, filter.app_id);
  if (refused) return refused;
  const { tag: tagText, organization_id: _, ...others } = filter;
  const tag = tagText === undefined ? undefined : readFilter('filter.tag', tagText);
  if (tag instanceof Rejection) return tag;
  return tag ? { ...others, tag } : others;
}
