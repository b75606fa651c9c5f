/**
 * The sources of cohorts: the records of organizations or, if ingest maintains them, cells with the numbers of active
 * installs and their revenue. Both give the same figures; those of cells are up to fifteen minutes older, which `as_of`
 * shows.
 */
import { cohortMs } from '#clickhouse/active-installs.ts';
import {
  type ComparedRow,
  comparedOrganizations,
  haveCells,
  largestGroupsOfCells,
  observedUpTo,
  retainedInCells,
  revenueInCells,
  sizesOfCells,
} from '#clickhouse/queries/active-installs.ts';
import {
  type CohortRow,
  type Cohorts,
  cohortSizes,
  type GroupRow,
  largestGroups,
  type RetainedRow,
  type ReturnOptions,
  type RevenueRow,
  retained,
  revenueByAge,
  type SizeRow,
} from '#clickhouse/queries/cohorts.ts';
import type { FilterColumn, Scope } from '#clickhouse/queries/scope.ts';
import { addDecimals } from '#common/decimal.ts';
import { Rejection } from '#common/http/rejection.ts';
import type { QueryRunner } from './ask.ts';
import type { AnalyticsQuestion } from './question.ts';

export interface CohortSource {
  readonly kind: 'records' | 'cells';
  /** Limited to the organizations that are read from this source. */
  readonly scope: Scope;
}

export interface CohortSources {
  /** At most one of each kind. */
  readonly sources: readonly CohortSource[];
  /** The instant up to which the figures are complete, and the last instant that counts; epoch milliseconds. */
  readonly asOfMs: number;
  readonly observedMs: number;
}

export type SourceOf = (
  asked: AnalyticsQuestion,
  cohorts: Pick<Cohorts, 'slots_ms' | 'groupBy'>,
) => Promise<CohortSources | Rejection>;

export const fromRecords: SourceOf = async ({ scope, queries }) => {
  const asOfMs = await queries.asOf();
  return { sources: [{ kind: 'records', scope }], asOfMs, observedMs: asOfMs };
};

/**
 * Reads from cells where possible.
 * @param comparedAt the time of the last comparison of activity, or of revenue, which may differ.
 */
const fromCells =
  (comparedAt: (row: ComparedRow) => number): SourceOf =>
  async (asked, cohorts) => {
    const { scope, queries, askedMs } = asked;
    if (!haveCells(scope, cohorts)) return fromRecords(asked, cohorts);
    const asOfMs = await queries.asOf();
    const rows = await queries.rows<ComparedRow>(comparedOrganizations(scope));
    if (rows instanceof Rejection) return rows;
    const compared = rows.filter((row) => comparedAt(row) > 0);
    if (compared.length === 0) return { sources: [{ kind: 'records', scope }], asOfMs, observedMs: asOfMs };
    const withCells = compared.map(({ organization_id }) => organization_id);
    const others = scope.organization_ids.filter((id) => !withCells.includes(id));
    const upTo = observedUpTo(Math.min(asOfMs, ...compared.map(comparedAt)));
    // A range that has not ended is extended to the end of a cell, which has no records after now.
    const end_ms = scope.end_ms >= askedMs ? Math.ceil(scope.end_ms / cohortMs) * cohortMs : scope.end_ms;
    if (end_ms % cohortMs !== 0) return fromRecords(asked, cohorts);
    const sources: CohortSource[] = [{ kind: 'cells', scope: { ...scope, end_ms, organization_ids: withCells } }];
    if (others.length > 0) sources.push({ kind: 'records', scope: { ...scope, organization_ids: others } });
    return { sources, asOfMs: upTo, observedMs: upTo - 1 };
  };

export const fromCellsIfPossible = fromCells(({ as_of }) => as_of);
export const fromRevenueCellsIfPossible = fromCells(({ revenue_as_of }) => revenue_as_of);

export async function sizesOf(
  { queries }: AnalyticsQuestion,
  cohorts: Cohorts,
  sources: readonly CohortSource[],
): Promise<SizeRow[] | Rejection> {
  const rows = await queries.together<SizeRow>(
    sources.map(({ kind, scope }) => (kind === 'cells' ? sizesOfCells : cohortSizes)(scope, cohorts)),
  );
  if (rows instanceof Rejection) return rows;
  return combined(rows, (a, b) => ({
    ...a,
    installs: a.installs + b.installs,
    eligible: sums(a.eligible, b.eligible),
  }));
}

export async function retainedOf(
  { asked, cohorts, sources }: { asked: AnalyticsQuestion; cohorts: Cohorts; sources: readonly CohortSource[] },
  options: ReturnOptions,
): Promise<RetainedRow[] | Rejection> {
  const rows = await asked.queries.together<RetainedRow>(
    sources.map(({ kind, scope }) =>
      kind === 'cells' ? retainedInCells(scope, cohorts) : retained(scope, cohorts, options),
    ),
  );
  if (rows instanceof Rejection) return rows;
  return combined(rows, (a, b) => ({ ...a, retained: sums(a.retained, b.retained) }));
}

export async function revenueOf(
  { queries }: AnalyticsQuestion,
  cohorts: Cohorts,
  sources: readonly CohortSource[],
): Promise<RevenueRow[] | Rejection> {
  const rows = await queries.together<RevenueRow>(
    sources.map(({ kind, scope }) => (kind === 'cells' ? revenueInCells : revenueByAge)(scope, cohorts)),
  );
  if (rows instanceof Rejection) return rows;
  return combined(
    rows,
    (a, b) => ({ ...a, revenue: a.revenue.map((sum, at) => addDecimals(sum, b.revenue[at] ?? '0')) }),
    ({ currency }) => currency,
  );
}

/** With two sources, all groups are needed to find the largest. */
const allGroupsMax = 100_000;

/** The groups with the most installs, largest first. */
export async function largestGroupsOf(
  queries: QueryRunner,
  by: FilterColumn,
  sources: readonly CohortSource[],
  groupsMax: number,
): Promise<string[] | Rejection> {
  const limit = sources.length > 1 ? allGroupsMax : groupsMax;
  const rows = await queries.together<GroupRow>(
    sources.map(({ kind, scope }) => (kind === 'cells' ? largestGroupsOfCells : largestGroups)(scope, by, limit)),
  );
  if (rows instanceof Rejection) return rows;
  const installs = new Map<string, number>();
  for (const { value, total } of rows) installs.set(value, (installs.get(value) ?? 0) + total);
  const largest = [...installs].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return largest.slice(0, groupsMax).map(([value]) => value);
}

const sums = (a: readonly number[], b: readonly number[]) => a.map((one, at) => one + (b[at] ?? 0));

function combined<Row extends CohortRow>(
  rows: readonly Row[],
  add: (a: Row, b: Row) => Row,
  kindOf: (row: Row) => string = () => '',
): Row[] {
  const byCohort = new Map<string, Row>();
  for (const row of rows) {
    const key = `${row.slot}\0${row.grp}\0${kindOf(row)}`;
    const before = byCohort.get(key);
    byCohort.set(key, before ? add(before, row) : row);
  }
  return [...byCohort.values()];
}
