/** Runs the product's comparison of the ledger with the stored rows, and whether it would notice the loss of any row. */
import { missingRows } from '#clickhouse/queries/missing-rows.ts';
import { DAY_MS } from '#common/durations.ts';
import { nameOf } from './answers.ts';
import { ageMaxOf, type SimulatedRow } from './clickhouse-content.ts';
import { queriesOf } from './simulated-queries.ts';
import { placeOf, type World } from './world.ts';

/** Lines of a month in which rows begin to expire are not told from those that did. */
const monthMs = 32 * DAY_MS;

/** @param isLosing whether to lose a row, for good. @returns what the audit gets wrong. */
export async function auditFaults(world: World, isLosing: boolean): Promise<string[]> {
  const { clickhouse, postgres, scheduler, lostInRestore } = world;
  const missing = async () => {
    const report = await missingRows(queriesOf(clickhouse), postgres.ledger);
    return report.missing.reduce((sum, { rows }) => sum + rows, 0);
  };
  const isKept = ({ table, time }: SimulatedRow) =>
    time > clickhouse.now - (ageMaxOf.get(table) ?? Number.POSITIVE_INFINITY) + monthMs;
  const places = new Set(clickhouse.rows.map(placeOf));
  const names = new Set(clickhouse.rows.map(({ n, id }) => nameOf(n, id)));
  const lost = lostInRestore.filter((row) => !row.isLearned && isKept(row));
  const gone = lost.filter((row) => !places.has(placeOf(row)));
  const before = await missing();
  const hasLines = postgres.hits.restored + postgres.hits.commits_lost === 0;
  // A repeat may have been stored in place of a lost record.
  const least = hasLines ? gone.filter(({ n, id }) => !names.has(nameOf(n, id))).length : 0;
  // What an ingest that kept running during a restore stored again has two lines; docs/durability.md says to stop it.
  if (before < least || before > lost.length)
    return [`the audit counts ${before} missing rows, although ${least} to ${lost.length} are`];
  const own = clickhouse.rows.filter((row) => !row.isLearned && isKept(row));
  if (own.length === 0 || !isLosing) return [];
  const row = scheduler.random.pick(own);
  clickhouse.lose(row);
  const after = await missing();
  return after === before + 1
    ? []
    : [`the audit counts ${after - before} missing rows for ${placeOf(row)}, which is gone`];
}
