import { Type } from 'typebox';
import { absent, organizationsOf, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { invalid, type Rejection } from '#common/http/rejection.ts';
import { linkAnswer, linkExample, linkSchema } from '#common/links/link.ts';
import { isStorableTime } from '#common/links/link-fields.ts';
import type { TenantQueries } from '#common/stores/tenancy.ts';
import { linksByClicks, timedPage } from './selection.ts';

const query = Type.Object(
  {
    ...pageQuery,
    app_id: Type.Optional(Type.String()),
    campaign: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    tag: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
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
      schema: listSchema(linkSchema),
      example: { data: [linkExample], pagination: { total: 1, limit: 50, offset: 0, has_more: false } },
    },
  },
  handle: async ({ tenancy, rankByClicks, shortUrl }, { caller, query }) => {
    const faulty = faultyTime(query, 'created_after') ?? faultyTime(query, 'created_before');
    if (faulty) return faulty;
    const mine = organizationsOf(caller);
    const page = pageOf(query);
    const { limit: _, offset: __, sort, ...filters } = query;
    const ranking = sort === 'clicks' ? await rankByClicks(mine, query.app_id ?? null) : null;
    return tenancy.within(tenantOf(caller), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const { total, rows } = await (ranking
        ? linksByClicks(tenant, filters, page, ranking)
        : timedPage(tenant, filters, page));
      return listAnswer(
        rows.map((row) => linkAnswer(row, shortUrl)),
        total,
        page,
      );
    });
  },
});

export async function refuseApp(tenant: TenantQueries, appId: string | undefined): Promise<Rejection | null> {
  if (appId === undefined) return null;
  const sql = 'SELECT id FROM apps WHERE organization_id = ANY ($1) AND id = $2 AND deleted_at IS NULL';
  const [app] = await tenant.query(sql, [appId]);
  return app ? null : absent(tenant, 'app', appId);
}

type TimeName = 'created_after' | 'created_before';

function faultyTime(query: { readonly [K in TimeName]?: string }, name: TimeName): Rejection | null {
  const text = query[name];
  return text === undefined || isStorableTime(text) ? null : invalid(name, 'must be a time from 1970 to 9999');
}
