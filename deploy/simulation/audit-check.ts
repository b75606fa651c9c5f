/** Runs the product's comparison of the ledger with the stored rows, and whether it would notice the loss of any row. */
import { missingRows } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import { nameOf } from './answers.ts';
import { ageMaxOf, type SimulatedRow } from './clickhouse-content.ts';
import { queriesOf } from './simulated-queries.ts';
import { placeOf, type World } from './world.ts';

/** A line counts as expired, as a whole, from an hour before its oldest row expires. It has rows of at most one month. */
const [leastMs, monthMs] = [HOUR_MS, 32 * DAY_MS];

/** @param isLosing whether to lose a row, for good. @returns what the audit gets wrong. */
export async function auditFaults(world: World, isLosing: boolean): Promise<string[]> {
  const { clickhouse, postgres, scheduler, lostInRestore } = world;
  const missing = async () => {
    const report = await missingRows(queriesOf(clickhouse), postgres.ledger);
    return report.missing.reduce((sum, { rows }) => sum + rows, 0);
  };
  const lastsFor = ({ table, time }: SimulatedRow) =>
    time + (ageMaxOf.get(table) ?? Number.POSITIVE_INFINITY) - clickhouse.now;
  const places = new Set(clickhouse.rows.map(placeOf));
  const names = new Set(clickhouse.rows.map(({ n, id }) => nameOf(n, id)));
  // One row for each record: a replay may have stored it again, and a second restore may have taken it again.
  const lost = new Map(lostInRestore.filter((row) => !row.isLearned).map((row) => [placeOf(row), row]));
  // At most these are missing: whatever else a restore took is stored, and the ledger counts it once, or its line has
  // expired.
  const gone = [...lost.values()].filter((row) => !places.has(placeOf(row)) && lastsFor(row) >= leastMs);
  // At least those whose lines cannot have expired. Of a record that was sent twice, a replay may have stored the other
  // copy, which counts as this one. If Postgres has lost lines, nothing says that their rows ever were.
  const certain = gone.filter((row) => !names.has(nameOf(row.n, row.id)) && lastsFor(row) > monthMs);
  const least = postgres.hits.restored + postgres.hits.commits_lost === 0 ? certain.length : 0;
  const before = await missing();
  if (before < least || before > gone.length)
    return [`the audit counts ${before} missing rows, although ${least} to ${gone.length} are`];
  const own = clickhouse.rows.filter((row) => !row.isLearned && lastsFor(row) > monthMs);
  if (own.length === 0 || !isLosing) return [];
  const row = scheduler.random.pick(own);
  clickhouse.lose(row);
  const after = await missing();
  return after === before + 1
    ? []
    : [`the audit counts ${after - before} missing rows for ${placeOf(row)}, which is gone`];
}
