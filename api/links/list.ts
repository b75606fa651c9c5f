import { Type } from 'typebox';
import { readableOrganizations, refuseApp, tenantOf } from '#api/access.ts';
import { type LinkFigure, linkFigures } from '#api/deps.ts';
import { pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { readFilter } from '#api/value-filter.ts';
import { invalid, Rejection } from '#common/http/rejection.ts';
import { linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { nullable } from '#common/links/link-fields.ts';
import { isStorableTime } from '#common/storable-time.ts';
import { cursorOf, readCursor } from './cursor.ts';
import { linksByClicks, timedPage } from './selection.ts';

const query = Type.Object(
  {
    ...pageQuery,
    app_id: Type.Optional(Type.String()),
    organization_id: Type.Optional(Type.String({ description: 'Default: all of your organizations.' })),
    campaign: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    tag: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4_000,
        description:
          'Links with one of these tags (`a,b`), or with none of them (`-a,-b`). Escape a comma, a leading minus and a backslash with a backslash.',
      }),
    ),
    cursor: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'Use instead of offset: empty for the first page, then the next_cursor of the previous page. With a cursor, pages neither skip nor repeat links when new links are created.',
      }),
    ),
    include: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'All-time counts to include with each link: `clicks`, `installs` or `clicks,installs`.',
      }),
    ),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'Part of a short code, path, title or campaign; not case-sensitive.',
      }),
    ),
    archived: Type.Optional(
      Type.Boolean({ description: 'true: archived links only. false: active links only. Default: both.' }),
    ),
    created_after: Type.Optional(Type.String({ format: 'date-time', description: 'Inclusive.' })),
    created_before: Type.Optional(Type.String({ format: 'date-time', description: 'Exclusive.' })),
    sort: Type.Optional(
      Type.Unsafe<'created_at' | 'clicks'>({
        type: 'string',
        enum: ['created_at', 'clicks'],
        description: 'Newest first (default), or most clicks first.',
      }),
    ),
  },
  { additionalProperties: false },
);

const pagination = Type.Object(
  {
    total: Type.Integer(),
    limit: Type.Integer(),
    offset: Type.Integer(),
    has_more: Type.Boolean(),
    next_cursor: Type.Optional(
      nullable(Type.String({ description: 'With cursor: the cursor of the next page; null on the last page.' })),
    ),
  },
  { title: 'LinkPagination' },
);
const listedLink = Type.Object(
  {
    ...linkSchema.properties,
    clicks: Type.Optional(Type.Integer({ description: 'With include=clicks.' })),
    installs: Type.Optional(Type.Integer({ description: 'With include=installs.' })),
  },
  { title: 'ListedLink' },
);

function readInclude(text: string): readonly LinkFigure[] | Rejection {
  const names = text.split(',').map((name) => name.trim());
  return names.every((name) => linkFigures.some((one) => one === name))
    ? linkFigures.filter((name) => names.includes(name))
    : invalid('include', `must be a list of ${linkFigures.join(' and ')}`);
}

export const listLinks = route({
  method: 'GET',
  path: '/links',
  operationId: 'listLinks',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'List links',
  query,
  answers: {
    200: {
      description: 'A page of links.',
      schema: Type.Object({ data: Type.Array(listedLink), pagination }),
      example: {
        data: [linkExample],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
      },
    },
  },
  handle: async (deps, { caller, query }) => {
    const faulty = faultyTime(query, 'created_after') ?? faultyTime(query, 'created_before');
    if (faulty) return faulty;
    const { limit: _, offset, sort, cursor, include, tag: tagText, organization_id, ...others } = query;
    const tag = tagText === undefined ? undefined : readFilter('tag', tagText);
    if (tag instanceof Rejection) return tag;
    const after = cursor ? readCursor(cursor) : undefined;
    if (after instanceof Rejection) return after;
    if (cursor !== undefined && sort === 'clicks')
      return invalid('cursor', 'cannot be used with sort=clicks: use offset');
    if (cursor !== undefined && offset !== undefined) return invalid('cursor', 'cannot be used with offset');
    const figures = include === undefined ? [] : readInclude(include);
    if (figures instanceof Rejection) return figures;
    const organizations = await readableOrganizations(deps.db, caller, organization_id);
    if (organizations instanceof Rejection) return organizations;
    const scope = tenantOf(caller, organizations);
    const page = pageOf(query);
    const filters = tag ? { ...others, tag } : others;
    const ranking = sort === 'clicks' ? await deps.rankByClicks([...organizations], query.app_id ?? null) : null;
    const found = await deps.tenancy.within(scope, async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      // One extra row shows whether there are more.
      return ranking
        ? linksByClicks(tenant, filters, page, ranking)
        : timedPage(tenant, filters, { ...page, limit: page.limit + 1 }, after);
    });
    if (found instanceof Rejection) return found;
    const rows = found.rows.slice(0, page.limit);
    const has_more = ranking ? page.offset + rows.length < found.total : found.rows.length > page.limit;
    const last = rows.at(-1);
    const next = cursor === undefined ? {} : { next_cursor: has_more && last ? cursorOf(last) : null };
    const counted = await deps.countLinks(scope, rows, figures);
    if (counted instanceof Rejection) return counted;
    const data = rows.map((row) => ({ ...linkAnswer(row, deps.shortUrl), ...counted.get(row.id) }));
    const { limit, offset: skipped } = page;
    return {
      status: 200,
      body: { data, pagination: { total: found.total, limit, offset: skipped, has_more, ...next } },
    };
  },
});

type TimeName = 'created_after' | 'created_before';

function faultyTime(query: { readonly [K in TimeName]?: string }, name: TimeName): Rejection | null {
  const text = query[name];
  return text === undefined || isStorableTime(text) ? null : invalid(name, 'must be a time from 1970 to 9999');
}
