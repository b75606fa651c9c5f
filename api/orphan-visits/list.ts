import { Type } from 'typebox';
import { refuseApp, tenantOf } from '#api/access.ts';
import type { ApiDeps } from '#api/deps.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { DAY_MS } from '#common/durations.ts';
import type { Route } from '#common/http/route.ts';
import { nullable } from '#common/links/link-fields.ts';
import { longLinkRefusals, refusedOfVisitName } from '#common/links/long-link.ts';

/** Redirectors delete older days. */
const DAYS_MAX = 30;
const DAYS_DEFAULT = 7;

const counted = `
  FROM orphan_visits o JOIN apps a ON a.id = o.app_id
 WHERE o.organization_id = ANY ($1) AND a.deleted_at IS NULL AND ($2::text IS NULL OR o.app_id = $2) AND o.day > $3::date`;
const total = `SELECT count(*)::integer AS total FROM (SELECT ${counted} AND o.short_code <> '' GROUP BY o.app_id, o.short_code) AS g`;
const page = `
SELECT o.app_id, a.host, o.short_code, sum(o.visits)::float8 AS visits, max(o.last_at) AS last_at ${counted} AND o.short_code <> ''
 GROUP BY o.app_id, a.host, o.short_code ORDER BY visits DESC, o.app_id, o.short_code LIMIT $4 OFFSET $5`;
const others = `SELECT coalesce(sum(o.visits), 0)::float8 AS visits ${counted} AND o.short_code = ''`;

interface OrphanRow {
  readonly app_id: string;
  readonly host: string;
  readonly short_code: string;
  readonly visits: number;
  readonly last_at: Date;
}

const reasons = ['unknown_code', ...longLinkRefusals] as const;
type VisitReason = (typeof reasons)[number];

/** Redirectors count rejected long links under a name that is not a code. */
function named(name: string): {
  readonly short_code: string;
  readonly reason: VisitReason;
  readonly detail: string | null;
} {
  const refused = refusedOfVisitName(name);
  return refused ? { short_code: '', ...refused } : { short_code: name, reason: 'unknown_code', detail: null };
}

const list = listSchema(
  Type.Object(
    {
      app_id: Type.String(),
      host: Type.String(),
      short_code: Type.String({ description: 'Empty for Firebase long links.' }),
      reason: Type.Unsafe<VisitReason>({
        type: 'string',
        enum: [...reasons],
        description:
          'Why a Firebase long link cannot be followed: no_link (the link parameter is missing), bad_url, foreign_host (the destination’s host is not in settings.firebase_links), foreign_app (the id of another app).',
      }),
      detail: nullable(Type.String({ description: 'The parameter, host or app id that caused the problem.' })),
      visits: Type.Integer(),
      last_at: Type.String({ format: 'date-time' }),
    },
    { title: 'OrphanVisit' },
  ),
);

const listOrphanVisits = route({
  method: 'GET',
  path: '/orphan-visits',
  operationId: 'listOrphanVisits',
  caller: 'user',
  scope: 'links:read',
  limit: 'general',
  tag: 'Links',
  summary: 'List visits to unknown codes',
  description:
    'Codes that no link has, such as misprinted or guessed ones, and Firebase long links that cannot be followed, the most visited first. Known bots are not counted. Redirectors report every ten seconds. The 200 most visited codes of each app and day are kept for 30 days; visits to all other codes are summed in `other_visits`.',
  query: Type.Object(
    {
      ...pageQuery,
      app_id: Type.Optional(Type.String()),
      days: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: DAYS_MAX,
          description: `Number of days (UTC), including today; default ${DAYS_DEFAULT}.`,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of codes.',
      schema: Type.Object({ ...list.properties, other_visits: Type.Integer() }),
      example: {
        data: [
          {
            app_id: 'app_01j9z3k4m5n6p7q8r9s0t1v2w3',
            host: 'shop.example.com',
            short_code: 'sumer',
            reason: 'unknown_code',
            detail: null,
            visits: 120,
            last_at: '2026-01-15T09:30:00.000Z',
          },
        ],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
        other_visits: 0,
      },
    },
  },
  handle: ({ tenancy, clock }, { caller, query }) =>
    tenancy.within(tenantOf(caller), async (tenant) => {
      const refused = await refuseApp(tenant, query.app_id);
      if (refused) return refused;
      const asked = pageOf(query);
      const before = new Date(clock() - (query.days ?? DAYS_DEFAULT) * DAY_MS).toISOString().slice(0, 10);
      const period = [query.app_id ?? null, before];
      const [all] = await tenant.query<{ total: number }>(total, period);
      const rows = await tenant.query<OrphanRow>(page, [...period, asked.limit, asked.offset]);
      const [rest] = await tenant.query<{ visits: number }>(others, period);
      const data = rows.map((row) => ({ ...row, ...named(row.short_code), last_at: row.last_at.toISOString() }));
      return listAnswer(data, all?.total ?? 0, asked, { other_visits: rest?.visits ?? 0 });
    }),
});

export const orphanVisitRoutes: readonly Route<ApiDeps>[] = [listOrphanVisits];
