/** Every fault that the simulation can inject, and how each one ends. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { Program } from './program.ts';
import { type CallableServer, type CallFaults, noCallFaults } from './server-call.ts';
import { noDiskFaults, type SimulatedDisk } from './simulated-disk.ts';
import type { World } from './world.ts';
import { clocksOf, errorOf } from './wrong-clocks.ts';

export interface Fault {
  readonly name: string;
  /** Injects the fault once. @returns a function that ends it, if it lasts. */
  readonly hit: (world: World) => (() => void) | undefined;
}

/** The maximum error of a clock that counts as right. */
const clockOffMsMax = 25_000;

const partitionsMax = 4;
/** How long edges use the added partitions at most before the old number is restored. */
const partitionsUsedMsMax = 3_000;
/** Time within which all processes are restarted with the changed number. */
const quickRollMs = 300;

function pickProgram(world: World): Program | undefined {
  const { programs } = world;
  return programs.length === 0 ? undefined : world.scheduler.random.pick(programs);
}

export const faults: readonly Fault[] = [
  {
    name: 'process killed',
    hit: (world) => void pickProgram(world)?.kill(),
  },
  {
    name: 'process frozen',
    hit: (world) => {
      const program = pickProgram(world);
      program?.freeze();
      return () => program?.thaw();
    },
  },
  {
    name: 'number of partitions changed',
    hit: (world) => void world.changePartitions(world.scheduler.random.pick([1, 2, partitionsMax])),
  },
  {
    name: 'Postgres and log as before partitions were added, which are not used any more',
    hit: (world) => {
      const { postgres, nats, scheduler, matches } = world;
      if (postgres.partitions.size < partitionsMax) postgres.backUp();
      world.changePartitions(partitionsMax, quickRollMs);
      const usedMs = scheduler.random.next() * partitionsUsedMsMax;
      const back = scheduler.after(usedMs, () => world.changePartitions(1, quickRollMs));
      return () => {
        if (back.callback !== undefined) {
          scheduler.cancel(back);
          world.changePartitions(1, quickRollMs);
          return;
        }
        nats.wipe();
        nats.start();
        if (!postgres.restore()) return;
        matches.forget();
        postgres.start();
      };
    },
  },
  {
    name: 'power lost',
    hit: (world) => void world.losePower(world.scheduler.random.pick(world.edges)),
  },
  {
    name: 'log server killed',
    hit: (world) => {
      world.nats.crash(0);
      return () => world.nats.start();
    },
  },
  {
    name: 'log server without power',
    hit: (world) => {
      world.nats.crash(world.nats.unsynced('log'));
      return () => world.nats.start();
    },
  },
  {
    name: 'log cut',
    hit: (world) => {
      world.nats.crash(world.scheduler.random.between(1, 40));
      return () => world.nats.start();
    },
  },
  {
    name: 'log wiped',
    hit: (world) => {
      world.nats.wipe();
      return () => world.nats.start();
    },
  },
  {
    name: 'log refuses',
    hit: ({ nats }) => setUntil(nats, 'isRefusing', [true, false]),
  },
  {
    name: 'log loses deliveries',
    hit: ({ nats, scheduler }) => setUntil(nats, 'lostDeliveries', [scheduler.random.next() ** 2, 0]),
  },
  {
    name: 'locks cannot be checked',
    hit: (world) => {
      const { lockFaults } = world.scheduler.random.pick(world.edges);
      return setUntil(lockFaults, 'unknown', [world.scheduler.random.next(), 0]);
    },
  },
  {
    name: 'network cut',
    hit: ({ machines, scheduler }) => setUntil(scheduler.random.pick(machines).link, 'isCut', [true, false]),
  },
  {
    name: 'network cut for days in which the log is wiped',
    hit: (world) => {
      const { nats, scheduler } = world;
      const { link } = scheduler.random.pick(world.edges);
      link.isCut = true;
      return () => {
        nats.wipe();
        world.leap(scheduler.random.between(2, 4) * DAY_MS);
        link.isCut = false;
        nats.start();
      };
    },
  },
  {
    name: 'network slow',
    hit: (world) => {
      const { random } = world.scheduler;
      const { link } = random.pick(world.machines);
      return setUntil(link, 'latencyMsMax', [random.pick([20, 200, 3_000]), 1]);
    },
  },
  {
    name: 'connection reset',
    hit: (world) => void world.scheduler.random.pick([...world.publishers, ...world.ingests]).client?.break(),
  },
  {
    name: 'disk full',
    hit: (world) => diskFault(world, (disk) => ({ bytesMax: disk.bytes + world.scheduler.random.between(0, 2_000) })),
  },
  {
    name: 'disk fails writes',
    hit: (world) => diskFault(world, () => ({ writeFails: world.scheduler.random.next() ** 2 })),
  },
  {
    name: 'disk fails syncs',
    hit: (world) => diskFault(world, () => ({ syncFails: world.scheduler.random.next() })),
  },
  {
    name: 'disk slow',
    hit: (world) => diskFault(world, () => ({ syncMsMax: world.scheduler.random.pick([100, 2_000, 20_000]) })),
  },
  {
    name: 'disk slow until its power is lost',
    hit: (world) => {
      const { random } = world.scheduler;
      const machine = random.pick(world.edges);
      // About as long as it takes to fill a segment: a new one is started while another is being synced.
      machine.disk.setFaults({ ...noDiskFaults(), syncMsMax: world.shape.turnMs * random.pick([0.5, 2, 5]) });
      // Records that reach the log in the meantime are not lost with the disk.
      machine.link.isCut = random.next() < 0.7;
      return () => {
        world.losePower(machine);
        machine.link.isCut = false;
        machine.disk.setFaults(noDiskFaults());
      };
    },
  },
  {
    name: 'disk damages a journal',
    hit: ({ damage, edges, scheduler }) => void damage.do(scheduler.random.pick(edges), scheduler),
  },
  {
    name: 'process killed in a write',
    hit: (world) => diskFault(world, () => ({ killedInWrite: 0.2 })),
  },
  {
    name: 'Postgres killed',
    hit: ({ postgres }) => {
      postgres.crash();
      return () => postgres.start();
    },
  },
  {
    name: 'Postgres loses its last commits',
    hit: ({ postgres, scheduler, matches }) => {
      matches.forget();
      postgres.loseCommits(scheduler.random.between(1, 20));
      return () => postgres.start();
    },
  },
  {
    name: 'Postgres loses answers',
    hit: ({ postgres, scheduler }) => callFault(postgres, { lost: scheduler.random.next() * 0.5 }),
  },
  {
    name: 'Postgres slow',
    hit: ({ postgres, scheduler }) => callFault(postgres, { waitMsMax: scheduler.random.pick([100, 3_000, 30_000]) }),
  },
  {
    name: 'ClickHouse killed',
    hit: ({ clickhouse }) => {
      clickhouse.crash();
      return () => clickhouse.start();
    },
  },
  {
    name: 'ClickHouse without power',
    hit: ({ clickhouse }) => {
      clickhouse.losePower();
      return () => clickhouse.start();
    },
  },
  {
    name: 'ClickHouse refuses',
    hit: ({ clickhouse, scheduler }) => setUntil(clickhouse, 'refuses', [scheduler.random.next() * 0.5, 0]),
  },
  {
    name: 'ClickHouse loses answers',
    hit: ({ clickhouse, scheduler }) => callFault(clickhouse, { lost: scheduler.random.next() * 0.5 }),
  },
  {
    name: 'ClickHouse delays queries',
    hit: ({ clickhouse, scheduler }) =>
      callFault(clickhouse, { waitMsMax: scheduler.random.pick([100, 3_000, 30_000, 90_000]) }),
  },
  {
    name: 'ClickHouse slow within an insert',
    hit: ({ clickhouse, scheduler }) =>
      setUntil(clickhouse, 'stepMsMax', [scheduler.random.pick([50, 1_000, 20_000]), 1]),
  },
  {
    name: 'ClickHouse dies within inserts',
    hit: ({ clickhouse, scheduler }) => setUntil(clickhouse, 'diesInStep', [scheduler.random.next() * 0.3, 0]),
  },
  {
    name: 'ClickHouse dies within inserts, and repairs arrive late',
    hit: ({ clickhouse, scheduler: { random } }) => {
      clickhouse.diesInStep = 0.2;
      clickhouse.repairsLate = random.next();
      return () => {
        clickhouse.diesInStep = 0;
        clickhouse.repairsLate = 0;
      };
    },
  },
  {
    name: 'ClickHouse continues after lost connections',
    hit: ({ clickhouse, scheduler: { random } }) => {
      const waitMsMax = random.pick([2, 1_000, 10_000]);
      const end = callFault(clickhouse, { lost: random.next() * 0.5, orphaned: random.next() * 0.5, waitMsMax });
      clickhouse.stepMsMax = random.pick([50, 1_000]);
      clickhouse.diesInStep = random.next() * 0.2;
      return () => {
        end();
        clickhouse.stepMsMax = 1;
        clickhouse.diesInStep = 0;
      };
    },
  },
  {
    name: 'ClickHouse backed up',
    hit: (world) => void world.backUpClickHouse(),
  },
  {
    name: 'ClickHouse restored',
    hit: (world) => {
      world.restoreClickHouse();
      return () => world.clickhouse.start();
    },
  },
  {
    name: 'Postgres backed up',
    hit: ({ postgres }) => void postgres.backUp(),
  },
  {
    name: 'Postgres restored',
    hit: ({ postgres, matches }) => {
      if (!postgres.restore()) return undefined;
      matches.forget();
      return () => postgres.start();
    },
  },
  {
    name: 'replay of ClickHouse requested',
    hit: (world) => {
      const { random, now } = world.scheduler;
      world.askForReplay(Math.min(world.replayFrom, world.postgres.now - random.next() * now));
      return undefined;
    },
  },
  {
    name: 'Redis killed',
    hit: ({ redis }) => {
      redis?.crash();
      return () => redis?.start();
    },
  },
  {
    name: 'Redis evicts',
    hit: ({ redis, scheduler }) => void redis?.evict(scheduler.random.next()),
  },
  {
    name: 'Redis full',
    hit: ({ redis }) => redis && setUntil(redis, 'isFull', [true, false]),
  },
  {
    name: 'Redis loses answers',
    hit: ({ redis, scheduler }) =>
      redis === undefined ? undefined : callFault(redis, { lost: scheduler.random.next() }),
  },
  {
    name: 'process killed between a request and its answer',
    hit: ({ postgres, clickhouse, scheduler }) =>
      callFault(scheduler.random.pick([postgres, clickhouse]), { killsCaller: scheduler.random.next() * 0.2 }),
  },
  {
    name: 'clock jump',
    hit: (world) => {
      const { random } = world.scheduler;
      const ms = Math.round((2 * random.next() - 1) * clockOffMsMax);
      const machine = random.next() < 0.3 ? undefined : random.pick(world.machines);
      if (machine === undefined) random.pick([world.nats, world.postgres, world.clickhouse]).clockOffsetMs = ms;
      else machine.clock.wallOffsetMs = ms;
      world.scheduler.note(() => `the clock of ${machine?.name ?? 'a server'} is off by ${ms} ms`);
      return undefined;
    },
  },
  {
    name: 'clock jump of years',
    hit: (world) => {
      const { random } = world.scheduler;
      if (!world.shape.areClocksOff) return undefined;
      const clock = random.pick(clocksOf(world));
      clock.setOff(errorOf(clock, random));
      return random.next() < 0.5 ? undefined : () => clock.setOff(0);
    },
  },
  {
    name: 'jump of time',
    hit: (world) => {
      const { random } = world.scheduler;
      world.leap(random.next() * random.pick([10_000, HOUR_MS, 4 * DAY_MS]));
      return undefined;
    },
  },
];

function diskFault(
  world: World,
  changes: (disk: SimulatedDisk) => Partial<ReturnType<typeof noDiskFaults>>,
): () => void {
  const { disk } = world.scheduler.random.pick(world.edges);
  disk.setFaults({ ...noDiskFaults(), ...changes(disk) });
  return () => disk.setFaults(noDiskFaults());
}

/** @returns a function that sets the second value. */
function setUntil<T extends object, K extends keyof T>(
  of: T,
  key: K,
  [during, after]: readonly [T[K], T[K]],
): () => void {
  of[key] = during;
  return () => {
    of[key] = after;
  };
}

function callFault(server: CallableServer, changes: Partial<CallFaults>): () => void {
  server.faults = { ...noCallFaults(), ...changes };
  return () => {
    server.faults = noCallFaults();
  };
}
