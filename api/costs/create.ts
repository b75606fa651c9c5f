import { Type } from 'typebox';
import { chooseOrganization, refuseLimitedKey, refuseWrite } from '#api/access.ts';
import { changingRoute } from '#api/route.ts';
import { type FieldError, Rejection } from '#common/http/rejection.ts';
import { isObject } from '#common/json-object.ts';
import { readRevenue } from '#common/revenue.ts';
import { isPlainDate } from '#common/storable-time.ts';
import { allApps } from '#common/stores/tenancy.ts';
import { costExample, costFields } from './cost.ts';

const costsMax = 1_000;

const removal = `DELETE FROM campaign_costs c USING unnest($2::date[], $3::text[], $4::text[], $5::numeric[]) AS sent (day, campaign, currency, amount)
  WHERE c.organization_id = ANY ($1) AND c.day = sent.day AND c.campaign = sent.campaign AND c.currency = sent.currency AND sent.amount = 0`;
const upsert = `INSERT INTO campaign_costs (organization_id, day, campaign, currency, amount, updated_at)
  SELECT o.id, sent.day, sent.campaign, sent.currency, sent.amount, $6
    FROM unnest($1::text[]) AS o (id), unnest($2::date[], $3::text[], $4::text[], $5::numeric[]) AS sent (day, campaign, currency, amount)
   WHERE sent.amount > 0
  ON CONFLICT (organization_id, day, campaign, currency) DO UPDATE SET amount = excluded.amount, updated_at = excluded.updated_at`;
const expiry = `DELETE FROM campaign_costs WHERE organization_id = ANY ($1)
  AND day < (signpost_deletion_time() AT TIME ZONE 'UTC')::date - $2::integer`;

export const createCosts = changingRoute({
  method: 'POST',
  path: '/costs',
  operationId: 'createCosts',
  caller: 'user',
  scope: 'analytics:write',
  limit: 'general',
  tag: 'Costs',
  summary: 'Upload the costs of campaigns',
  description:
    'Each entry is the cost of a campaign on one day. It replaces an earlier cost of the same campaign, day and currency, so uploads can be repeated; an amount of 0 removes the cost. Days past the retention of statistics are not kept.',
  body: Type.Object(
    {
      organization_id: Type.Optional(
        Type.String({ description: 'Optional for a caller who belongs to exactly one organization.' }),
      ),
      costs: Type.Array(Type.Object(costFields, { additionalProperties: false, title: 'Cost' }), {
        minItems: 1,
        maxItems: costsMax,
      }),
    },
    { additionalProperties: false, title: 'NewCosts' },
  ),
  bodyBytesMax: 512 * 1024,
  bodyFaults: ({ costs }) => (Array.isArray(costs) ? costs.slice(0, costsMax).flatMap(faultsOf) : []),
  bodyExample: { costs: [costExample] },
  answers: {
    200: {
      description: 'The costs are stored.',
      schema: Type.Object({ stored: Type.Integer({ description: 'Number of costs in the request.' }) }),
      example: { stored: 1 },
    },
  },
  async handle({ db, tenancy, clock, analytics }, { caller, note, body }) {
    const organization = await chooseOrganization(db, caller, body.organization_id);
    if (organization instanceof Rejection) return organization;
    const denied = refuseWrite(caller, organization) ?? refuseLimitedKey(caller, 'Costs');
    if (denied) return denied;
    // If a request has several costs for the same campaign, day and currency, the last one is used.
    const costs = [...new Map(body.costs.map((cost) => [keyOf(cost), cost])).values()];
    const columns = [
      costs.map(({ day }) => day),
      costs.map(({ campaign }) => campaign),
      costs.map(({ currency }) => currency),
      costs.map(({ amount }) => amount),
    ];
    return tenancy.within(allApps([organization]), async (tenant) => {
      await tenant.query(removal, columns);
      await tenant.query(upsert, [...columns, new Date(clock())]);
      await tenant.query(expiry, [analytics.retentionDays + 1]);
      const noted = await note(tenant, { organization_id: organization, id: '' });
      return { status: 200, body: { stored: body.costs.length }, noted };
    });
  },
});

function keyOf({ day, campaign, currency }: { day: string; campaign: string; currency: string }): string {
  return `${day} ${currency} ${campaign}`;
}

function faultsOf(cost: unknown, at: number): FieldError[] {
  if (!isObject(cost)) return [];
  const { day, amount, currency } = cost;
  const faults: FieldError[] = [];
  const add = (field: string, message: string) => faults.push({ field: `costs[${at}].${field}`, message });
  if (typeof day === 'string' && !isPlainDate(day)) add('day', 'must be a date such as 2026-01-31');
  if (typeof amount === 'string' && typeof currency === 'string') {
    const money = readRevenue({ amount, currency });
    if ('field' in money) add(money.field.replace('revenue.', ''), money.message);
    else if (money.currency !== currency) add('currency', 'must be in upper case');
    else if (money.amount.startsWith('-')) add('amount', 'must not be negative');
  }
  return faults;
}
