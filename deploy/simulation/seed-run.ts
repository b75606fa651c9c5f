/** Runs one seed: a world under load and faults, then without either, then the checks. */
import { DAY_MS } from '#common/durations.ts';
import { auditFaults } from './audit-check.ts';
import { effectsOf, repairsOf } from './effects.ts';
import { Nemesis } from './nemesis.ts';
import { Killed } from './program.ts';
import { Scheduler } from './scheduler.ts';
import { World, type WorldShape } from './world.ts';

export interface SeedOutcome {
  readonly seed: number;
  /** What is wrong; empty if the seed passed. */
  readonly faults: readonly string[];
  readonly hits: ReadonlyMap<string, number>;
  /** How often sinks had to do more than store batches. */
  readonly repairs: ReadonlyMap<string, number>;
  /** The effects of faults and time on the servers and their data. */
  readonly bites: ReadonlyMap<string, number>;
  readonly records: number;
  readonly kept: number;
  readonly steps: number;
  readonly virtualMs: number;
  /** The same for every run of this seed. */
  readonly fingerprint: number;
  readonly trace: readonly string[];
}

/** Time within which everything must come to rest once there are no more faults. */
const restMsMax = 300_000;
const lookMs = 250;
/** An idle process ends its last segment within half a minute, and the segment is then deleted. */
const drainMsMax = 120_000;
/** Maximum time in flight of a purge that was sent before a replay was requested. */
const purgeMs = 50;
const quietMonthsShare = 0.2;
const setBackShare = 0.3;
const matchingShare = 0.2;
const clocksOffShare = 0.4;
/**
 * Share of seeds in which edges and ingests start with different values of LOG_PARTITIONS, as while it is being
 * changed.
 */
const otherPartitionsShare = 0.15;
const quietDays: readonly number[] = [150, 150, 150, 4_015];
/** After a restart, leases expire and everything is read again within this time. */
const settledMs = 10_000;
const resumedMs = 2_000;

export function shapeOf(scheduler: Scheduler): WorldShape {
  const { random } = scheduler;
  const partitions = random.between(1, 2);
  const isMatching = random.next() < matchingShare;
  const journalBytesMax = isMatching ? 100_000 : random.pick([2_000, 100_000, 100_000]);
  return {
    machines: random.between(1, 2),
    slots: random.between(1, 2),
    partitions,
    edgePartitions: random.next() < otherPartitionsShare ? random.between(1, 3) : partitions,
    sync: random.pick(['after_answer', 'before_answer'] as const),
    segmentBytes: isMatching ? 5_000 : random.pick([300, 1_000, 5_000]),
    journalBytesMax,
    turnMs: random.pick([50, 300, 1_000]),
    recordsPerTurnMax: random.pick([1, 4]),
    // A message may be as large as a journal, and a log holds many messages.
    logBytesMax: journalBytesMax * 10,
    isMatching,
    // Ids carry the edge's time: a click of a wrong clock is stored, but not found for a device.
    areClocksOff: !isMatching && random.next() < clocksOffShare,
    ingests: random.between(1, 2),
    leaseSeconds: random.pick([2, 5]),
    batchRows: random.pick([5, 50]),
    // With the larger ones, every second raise replaces the table.
    bytesPerFence: random.pick([5_000, 5_000, 3_000_000]),
  };
}

/**
 * Replays the log while clients continue: whatever a restore lost and the log still has is stored again. @returns why
 * that failed; empty if it succeeded.
 */
export async function replayed(world: World): Promise<string[]> {
  if (world.replayFrom === Number.POSITIVE_INFINITY) return [];
  const { scheduler, postgres } = world;
  const deadline = scheduler.now + restMsMax;
  const settled = async () => {
    while (postgres.openRevisions > 0) {
      if (scheduler.now > deadline) return false;
      await scheduler.run(scheduler.now + lookMs);
    }
    return true;
  };
  if (!(await settled())) return ['an earlier replay does not end'];
  scheduler.note(() => 'an operator requests a replay');
  world.askForReplay();
  // A purge may still be in flight. The replay must restore everything that the log has after it.
  await scheduler.run(scheduler.now + purgeMs);
  world.writeOffWhatIsNowhere();
  if (!(await settled())) return ['the replay does not end'];
  scheduler.note(() => 'the replay is done');
  return [];
}

/** @returns why the world has not come to rest in time; empty if it has. */
export async function rested(world: World, isHopeless: () => boolean): Promise<string[]> {
  const { scheduler } = world;
  const restAt = scheduler.now + restMsMax;
  for (;;) {
    const unrest = world.unrest();
    if (unrest.length === 0) return unrest;
    if (scheduler.now >= restAt || isHopeless()) {
      world.isJudged = true;
      return world.unrest();
    }
    await scheduler.run(scheduler.now + lookMs);
  }
}

/** Lets months pass without load, then lets clients send again. @returns what was not cleaned up before. */
async function quiet(world: World): Promise<string[]> {
  const { scheduler } = world;
  const drainedBy = scheduler.now + drainMsMax;
  while (!world.isDrained && scheduler.now < drainedBy) await scheduler.run(scheduler.now + lookMs);
  const isTidy = world.isDrained || world.isDamaged;
  scheduler.note(() => 'months pass');
  scheduler.leap(scheduler.random.pick(quietDays) * DAY_MS);
  world.isLoaded = true;
  await scheduler.run(scheduler.now + resumedMs);
  world.isLoaded = false;
  return isTidy ? [] : ['idle processes keep their last segments'];
}

/** What is wrong, so far. */
export type Checked = string[];

/** Runs work on a world. Rejections that nothing handles are added to what is wrong. */
export async function checked<T>(scheduler: Scheduler, work: (faults: Checked) => Promise<T>): Promise<T> {
  const faults: Checked = [];
  const onRejection = (reason: unknown) => {
    if (reason instanceof Killed) return;
    scheduler.note(() => `unhandled rejection: ${String(reason)}`);
    faults.push(`unhandled rejection: ${reason instanceof Error ? (reason.stack ?? '') : String(reason)}`);
  };
  process.on('unhandledRejection', onRejection);
  try {
    return await work(faults);
  } finally {
    process.off('unhandledRejection', onRejection);
  }
}

export interface Ended {
  readonly seed: number;
  readonly world: World;
  readonly hits: ReadonlyMap<string, number>;
  readonly faults: readonly string[];
  readonly quietMonths: number;
}

export function outcomeOf({ seed, world, hits, faults, quietMonths }: Ended): SeedOutcome {
  const { scheduler, answers, clickhouse } = world;
  const { duplicated, phantom } = answers.judge(clickhouse.rows, clickhouse.expired);
  return {
    seed,
    faults: [
      ...faults,
      ...duplicated.slice(0, 3).map((number) => `stored twice: ${answers.describe(number)}`),
      ...phantom.slice(0, 3).map((number) => `never sent: ${number}`),
      ...world.failures,
      ...world.matches.faults.slice(0, 3),
    ],
    hits,
    repairs: repairsOf(world),
    bites: effectsOf(world, quietMonths),
    records: answers.sent,
    kept: answers.count('kept'),
    steps: scheduler.steps,
    virtualMs: scheduler.now,
    fingerprint: scheduler.fingerprint,
    trace: scheduler.trace,
  };
}

export function runSeed(seed: number, isTraced = false): Promise<SeedOutcome> {
  const scheduler = new Scheduler(seed, isTraced);
  return checked(scheduler, async (faults) => {
    let quietMonths = 0;
    const world = new World(scheduler, shapeOf(scheduler));
    const nemesis = new Nemesis(world);
    scheduler.note(() => `${JSON.stringify(world.shape)} ${nemesis.kinds.join(', ')}`);
    const loadedMs = scheduler.random.pick([2_000, 6_000, 15_000]);
    const snapshotMs = scheduler.random.next() * loadedMs;
    await scheduler.run(scheduler.now + snapshotMs);
    const setBack = scheduler.random.next() < setBackShare ? scheduler.random.pick(world.edges).snapshot() : undefined;
    await scheduler.run(scheduler.now + loadedMs - snapshotMs);
    nemesis.stop();
    scheduler.note(() => 'no more faults');
    await scheduler.run(scheduler.now + 1_000);
    const unrest = await replayed(world);
    world.isLoaded = false;
    unrest.push(...(await rested(world, () => faults.length > 0)));
    if (unrest.length === 0) {
      // This is longer than marks are read at a takeover: frames that are still on a disk must not be counted again.
      if (scheduler.random.next() < quietMonthsShare) {
        unrest.push(...(await quiet(world)), ...(await rested(world, () => faults.length > 0)));
        quietMonths++;
      }
      if (setBack !== undefined) {
        scheduler.note(() => 'a disk is restored to an earlier state');
        setBack();
      }
      // Everything in memory is lost once more: the stored state must suffice to continue.
      scheduler.note(() => 'all processes start again');
      for (const program of world.programs) program.kill();
      await scheduler.run(scheduler.now + settledMs);
      unrest.push(...(await rested(world, () => faults.length > 0)), ...world.leftovers());
      if (unrest.length === 0) unrest.push(...(await auditFaults(world, true)));
    }
    return outcomeOf({ seed, world, hits: nemesis.hits, faults: [...faults, ...unrest], quietMonths });
  });
}
