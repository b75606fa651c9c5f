/** Costs of campaigns by cohort, and the return on them. */
import type { CohortRow, Cohorts, SizeRow } from '#clickhouse/queries/cohorts.ts';
import { addDecimals } from '#common/decimal.ts';
import { type Amount, byCurrency, decimalShare } from './metrics.ts';
import type { AnalyticsQuestion } from './question.ts';

/** Amounts by start of the cohort and group. */
export type Costs = ReadonlyMap<string, readonly Amount[]>;

const keyOf = ({ slot, grp }: CohortRow) => `${slot}\0${grp}`;

/**
 * The costs of each cohort and group. Null if costs can't be divided in the same way as the installs: they are known
 * only by campaign and day, for all apps together.
 */
export async function costsOf({ period, scope, visible }: AnalyticsQuestion, cohorts: Cohorts): Promise<Costs | null> {
  const { groupBy, top, slots_ms } = cohorts;
  // A server key for some apps always has a filter by app.
  const isDivided = Object.keys(scope.filters).some((column) => column !== 'campaign');
  if (isDivided || (groupBy !== undefined && groupBy !== 'campaign')) return null;
  const { zone } = period;
  const dayOf = (ms: number) => new Date(zone.localAt(ms)).toISOString().slice(0, 10);
  const rows = await visible.costs(dayOf(scope.start_ms), dayOf(scope.end_ms - 1));
  const costs = new Map<string, Amount[]>();
  const { campaign: filter } = scope.filters;
  for (const { day, campaign, currency, amount } of rows) {
    if (filter && filter.values.includes(campaign) === filter.isExclusion) continue;
    const ms = Math.max(scope.start_ms, zone.instantOf(Date.parse(`${day}T00:00:00Z`)));
    const slot = Math.max(0, slots_ms.findLast((start) => start <= ms) ?? slots_ms[0] ?? 0);
    const own = groupBy === undefined ? '' : campaign;
    const key = keyOf({ slot, grp: top && !top.includes(own) ? '\0' : own });
    costs.set(key, added(costs.get(key) ?? [], { currency, amount }));
  }
  return costs;
}

function added(amounts: readonly Amount[], { currency, amount }: Amount): Amount[] {
  const before = amounts.find((one) => one.currency === currency)?.amount ?? '0';
  const others = amounts.filter((one) => one.currency !== currency);
  return [...others, { currency, amount: addDecimals(before, amount) }].sort(byCurrency);
}

/** Rows for cohorts and groups that have costs but no installs. */
export function sizesOfCosts(costs: Costs | null, sizes: readonly SizeRow[], days: readonly number[]): SizeRow[] {
  const known = new Set(sizes.map(keyOf));
  const missing = [...(costs?.keys() ?? [])].filter((key) => !known.has(key));
  return missing.map((key) => {
    const at = key.indexOf('\0');
    return { slot: Number(key.slice(0, at)), grp: key.slice(at + 1), installs: 0, eligible: days.map(() => 0) };
  });
}

export function costOf(costs: Costs | null, row: CohortRow): readonly Amount[] | null {
  return costs === null ? null : (costs.get(keyOf(row)) ?? []);
}

/** Revenue divided by cost, for each currency of the cost. */
export function returnOn(cost: readonly Amount[], revenue: readonly Amount[]): object[] {
  // A cost that rounds to zero in another currency has no ratio.
  const known = cost.filter(({ amount }) => amount !== '0');
  return known.map(({ currency, amount }) => {
    const earned = revenue.find((one) => one.currency === currency)?.amount ?? '0';
    return { currency, ratio: decimalShare(earned, amount) };
  });
}
