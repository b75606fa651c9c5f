/** What a simulated world did: how often sinks had to do more than store batches, and what faults and time affected. */
import type { World } from './world.ts';

/** Counters of the sinks, summed over all ingests. */
export function repairsOf({ ingests }: World): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { counters } of ingests) {
    for (const [what, count] of Object.entries(counters)) sums.set(what, (sums.get(what) ?? 0) + count);
  }
  return sums;
}

/** How faults affected the servers and their data: a fault without any effect tests nothing. */
export function effectsOf(world: World, quietMonths: number): ReadonlyMap<string, number> {
  const { nats, postgres, clickhouse, answers } = world;
  const all = new Map<string, number>();
  const note = (of: string, hits: Readonly<Record<string, number>>) => {
    for (const [what, count] of Object.entries(hits)) all.set(`${of} ${what}`, (all.get(`${of} ${what}`) ?? 0) + count);
  };
  note('log', nats.hits);
  note('Postgres', postgres.hits);
  note('ClickHouse', clickhouse.hits);
  note('fences', clickhouse.fenceFiles.hits);
  if (world.redis !== undefined) {
    note('Redis', world.redis.hits);
    note('gateways', { matches: world.matches.given });
    for (const { feedCounters } of world.ingests) note('feed', { ...feedCounters });
  }
  for (const { disk } of world.edges) note('disk', disk.hits);
  const { repeats } = answers;
  note('clients', { repeats, forgiven: answers.count('forgiven'), refused: answers.count('refused') });
  const spread = new Set(clickhouse.rows.filter(({ table }) => table === 'clicks').map((row) => row.log_partition));
  note('journals', { damaged: world.damage.count, frames_lost: postgres.lostFrames.length });
  note('operator', { months_passed: quietMonths, written_off: world.writtenOff, partitions_of_clicks: spread.size });
  return all;
}
