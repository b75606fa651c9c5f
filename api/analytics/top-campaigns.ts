/** GET /analytics/top-campaigns: campaigns ranked by a metric, with the number of their links. */
import { Type } from 'typebox';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import type { UserCaller } from '#api/route.ts';
import { linksOfCampaigns } from '#clickhouse/queries/ranking.ts';
import { Rejection } from '#common/http/rejection.ts';
import { routesOf } from '#common/http/route.ts';
import type { AnalyticsDeps } from './deps.ts';
import { exampleMetrics, metricsFields } from './metrics.ts';
import { commonQuery, querySchema } from './parameters.ts';
import { readQuestion } from './question.ts';
import { figuresOfPage, rankedPage } from './ranked.ts';
import { sortQuery } from './top-links.ts';

const route = routesOf<AnalyticsDeps, UserCaller>();

interface LinkCount {
  readonly id: string;
  readonly links: number;
  readonly records: number;
}

export const topCampaigns = route({
  method: 'GET',
  path: '/analytics/top-campaigns',
  operationId: 'listTopCampaigns',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Analytics',
  summary: 'List the top campaigns',
  description:
    'Campaigns with at least one click, install or event in the range, under the name they had when it was recorded. Links without a campaign are omitted. `links` is the number of links with at least one such record.',
  query: querySchema({ ...commonQuery, ...pageQuery, sort_by: sortQuery }),
  answers: {
    200: {
      description: 'One page.',
      schema: listSchema(
        Type.Object({ campaign: Type.String(), links: Type.Integer(), ...metricsFields }, { title: 'TopCampaign' }),
      ),
      example: {
        data: [{ campaign: 'spring', links: 3, ...exampleMetrics }],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
      },
    },
  },
  async handle(deps, { caller, query }) {
    const asked = await readQuestion(deps, caller, query);
    if (asked instanceof Rejection) return asked;
    const page = pageOf(query);
    const { queries, scope, kept } = asked;
    const ranked = await rankedPage(asked, 'named_campaign', query.sort_by ?? 'clicks', page, (rows) =>
      figuresOfPage(asked, 'named_campaign', rows, {
        kept: kept.linksOfCampaigns,
        none: 0,
        countOf: (row) => row.clicks + row.installs + row.opens + row.events,
        ask: async (names) => {
          const found = await queries.rows<LinkCount>(linksOfCampaigns(scope, names));
          if (found instanceof Rejection) return found;
          return new Map(found.map((row) => [row.id, { figure: row.links, count: row.records }]));
        },
      }),
    );
    if (ranked instanceof Rejection) return ranked;
    const data = ranked.rows.map(({ id, metrics }) => ({
      campaign: id,
      links: ranked.beside.get(id) ?? 0,
      ...metrics,
    }));
    return listAnswer(data, ranked.total, page);
  },
});
