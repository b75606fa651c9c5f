import { Type } from 'typebox';
import { organizationsOf, refuseLimitedKey, refuseOrganization, tenantOf } from '#api/access.ts';
import { listAnswer, listSchema, pageOf, pageQuery } from '#api/listing.ts';
import { route } from '#api/route.ts';
import { invalid } from '#common/http/rejection.ts';
import { isPlainDate } from '#common/storable-time.ts';
import { costExample, costFields } from './cost.ts';

const matching = `FROM campaign_costs WHERE organization_id = ANY ($1)
  AND ($2::date IS NULL OR day >= $2) AND ($3::date IS NULL OR day <= $3) AND ($4::text IS NULL OR campaign = $4)`;
const count = `SELECT count(*)::integer AS total ${matching}`;
const page = `SELECT organization_id, campaign, day::text, trim_scale(amount)::text AS amount, currency ${matching}
  ORDER BY day DESC, campaign, currency, organization_id LIMIT $5 OFFSET $6`;

export const listCosts = route({
  method: 'GET',
  path: '/costs',
  operationId: 'listCosts',
  caller: 'user',
  scope: 'analytics:read',
  limit: 'general',
  tag: 'Costs',
  summary: 'List the costs of campaigns',
  description: 'Newest day first.',
  query: Type.Object(
    {
      ...pageQuery,
      organization_id: Type.Optional(Type.String()),
      start: Type.Optional(Type.String({ maxLength: 10, description: 'First day.' })),
      end: Type.Optional(Type.String({ maxLength: 10, description: 'Last day.' })),
      campaign: Type.Optional(Type.String({ maxLength: 255 })),
    },
    { additionalProperties: false },
  ),
  answers: {
    200: {
      description: 'A page of costs.',
      schema: listSchema(Type.Object({ organization_id: Type.String(), ...costFields }, { title: 'StoredCost' })),
      example: {
        data: [{ organization_id: 'org_01kzg3v5k2e4z9n7q8w6r5t4y3', ...costExample }],
        pagination: { total: 1, limit: 50, offset: 0, has_more: false },
      },
    },
  },
  async handle({ db, tenancy }, { caller, query }) {
    const { organization_id, start = null, end = null, campaign = null } = query;
    if (start !== null && !isPlainDate(start)) return invalid('start', 'must be a date such as 2026-01-31');
    if (end !== null && !isPlainDate(end)) return invalid('end', 'must be a date such as 2026-01-31');
    const denied =
      refuseLimitedKey(caller, 'Costs') ??
      (organization_id === undefined ? null : await refuseOrganization(db, caller, organization_id));
    if (denied) return denied;
    const wanted = organization_id === undefined ? organizationsOf(caller) : [organization_id];
    const { limit, offset } = pageOf(query);
    return tenancy.within(tenantOf(caller, wanted), async (tenant) => {
      const [counted] = await tenant.query<{ total: number }>(count, [start, end, campaign]);
      const rows = await tenant.query<object>(page, [start, end, campaign, limit, offset]);
      return listAnswer(rows, counted?.total ?? 0, { limit, offset });
    });
  },
});
