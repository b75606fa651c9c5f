/**
 * Runs years in one world: every day clients send for some seconds under other faults, then everything must come to
 * rest, and the audit must be right. Clocks are years off throughout. Between the days nothing runs.
 */
import { DAY_MS } from '#common/durations.ts';
import { auditFaults } from './audit-check.ts';
import { Nemesis } from './nemesis.ts';
import { Scheduler } from './scheduler.ts';
import { type Checked, checked, outcomeOf, replayed, rested, type SeedOutcome, shapeOf } from './seed-run.ts';
import { World } from './world.ts';

const loadedMs = 3_000;
const endedMs = 1_000;
const daysOfYear = 365;
const backedUpMs = 4_000;

/** @param onDay called after each day. */
export function runYears(
  years: number,
  seed: number,
  onDay: (day: number, world: World) => void,
): Promise<SeedOutcome> {
  const scheduler = new Scheduler(seed);
  const drawn = shapeOf(scheduler);
  const light = {
    machines: 2,
    slots: 1,
    turnMs: 1_000,
    recordsPerTurnMax: 1,
    journalBytesMax: 100_000,
    logBytesMax: 1_000_000,
  };
  const shape = { ...drawn, ...light, isMatching: false, areClocksOff: true };
  return checked(scheduler, async (faults) => {
    const world = new World(scheduler, shape);
    const hits = new Map<string, number>();
    for (let day = 0; day < years * daysOfYear && faults.length === 0; day++) {
      const dayFaults = await runDay(world, hits, faults);
      faults.push(...dayFaults.map((fault) => `day ${day}: ${fault}`));
      onDay(day, world);
      scheduler.leap(Math.max(0, (day + 1) * DAY_MS - scheduler.now));
    }
    return outcomeOf({ seed, world, hits, faults, quietMonths: 12 * years });
  });
}

async function runDay(world: World, hits: Map<string, number>, errors: readonly string[]): Promise<Checked> {
  const { scheduler } = world;
  // The day's backups: what a later restore loses is in the log.
  world.backUpClickHouse();
  world.postgres.backUp();
  await scheduler.run(scheduler.now + backedUpMs);
  const nemesis = new Nemesis(world);
  world.isLoaded = true;
  await scheduler.run(scheduler.now + loadedMs);
  nemesis.stop();
  for (const [name, times] of nemesis.hits) hits.set(name, (hits.get(name) ?? 0) + times);
  await scheduler.run(scheduler.now + endedMs);
  const found = await replayed(world);
  world.isLoaded = false;
  found.push(...(await rested(world, () => errors.length > 0)));
  if (found.length === 0) found.push(...(await auditFaults(world, false)));
  return found;
}
