/** GET /analytics/top-links: links ranked by a metric, including deleted ones. */
import { Type } from 'typebox';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import type { UserCaller } from '#api/route.ts';
import { rankedBy } from '#clickhouse/queries/ranking.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { ShortUrl } from '#common/links/short-url.ts';
import type { AnalyticsDeps } from './deps.ts';
import { exampleMetrics, type Metrics, metricsFields } from './metrics.ts';
import { commonQuery, oneOf, querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';
import { rankedPage } from './ranked.ts';
import type { LinkFace } from './visible.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();
const orNull = Type.Union([Type.String(), Type.Null()]);

export const sortQuery = Type.Optional(
  oneOf(
    rankedBy,
    'Sort order, largest first; default clicks. revenue: sorts by the amount in the currency that most events use.',
  ),
);

export const topLinks = route({
  method: 'GET',
  path: '/analytics/top-links',
  operationId: 'listTopLinks',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'List the top links',
  description:
    'Links with at least one click, install or event in the range, including deleted links. Organic installs and events without a link are summed in one row whose link_id is null, so that the rows add up to the overview.',
  query: querySchema({ ...commonQuery, ...pageQuery, sort_by: sortQuery }),
  answers: {
    200: {
      description: 'One page.',
      schema: listSchema(
        Type.Object(
          {
            link_id: orNull,
            short_code: orNull,
            url: orNull,
            path: orNull,
            title: orNull,
            campaign: orNull,
            app_id: orNull,
            deleted: Type.Boolean(),
            ...metricsFields,
          },
          { title: 'TopLink' },
        ),
      ),
      example: {
        data: [
          {
            link_id: 'lnk_01kzg3v5k2e4z9n7q8w6r5t4y3',
            short_code: 'spring',
            url: 'https://example.localhost/spring',
            path: '/sale',
            title: 'Spring sale',
            campaign: 'spring',
            app_id: 'app_01kzg3v5k2e4z9n7q8w6r5t4y3',
            deleted: false,
            ...exampleMetrics,
          },
        ],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const page = pageOf(query);
    const ranked = await rankedPage(asked, 'link_id', query.sort_by ?? 'clicks', page, (rows) =>
      asked.visible.links(rows.map((row) => row.id).filter((id) => id !== '')),
    );
    if (ranked instanceof Rejection) return ranked;
    const data = ranked.rows.map(({ id, metrics }) => rowOf(id, ranked.beside.get(id), metrics, deps.shortUrl));
    return listAnswer(data, ranked.total, page);
  },
});

/** A link that is no longer in Postgres still has a row. */
function rowOf(id: string, face: LinkFace | undefined, metrics: Metrics, shortUrl: ShortUrl): object {
  return {
    link_id: id === '' ? null : id,
    short_code: face?.short_code ?? null,
    url: face ? shortUrl(face.host, face.short_code) : null,
    path: face?.path ?? null,
    title: face?.title ?? null,
    campaign: face?.campaign ?? null,
    app_id: face?.app_id ?? null,
    deleted: id !== '' && (face?.deleted ?? true),
    ...metrics,
  };
}
