/** Clocks that are years off: those of all machines and of the log and Postgres, which no record may be lost by. */
import { DAY_MS, HOUR_MS } from '#common/durations.ts';
import type { SeededRandom } from '#testing/seeded-random.ts';
import type { Answers } from './answers.ts';
import type { Machine } from './machine.ts';
import type { Scheduler } from './scheduler.ts';

/** A clock, and how wrong it may be. */
export interface WrongClock {
  readonly offMsMax: number;
  setOff(ms: number): void;
}

/** What has clocks. */
interface Clocked {
  readonly machines: readonly Machine[];
  readonly nats: { clockOffsetMs: number };
  readonly postgres: { clockOffsetMs: number };
  readonly answers: Answers;
  readonly scheduler: Scheduler;
  readonly epochMs: number;
}

const [edgeMsMax, storeMsMax] = [60 * 365 * DAY_MS, 5 * 365 * DAY_MS];
const firstDayShare = 0.1;

/** Every clock that may be years off. That of ClickHouse decides what expires, so it may not. */
export function clocksOf({ machines, nats, postgres, answers, scheduler, epochMs }: Clocked): WrongClock[] {
  const note = (name: string, ms: number) => {
    if (Math.abs(ms) > HOUR_MS) answers.areTimesRight = false;
    scheduler.note(() => `the clock of ${name} is off by ${ms} ms`);
  };
  const ofMachines = machines.map(({ name, clock }) => ({
    offMsMax: edgeMsMax,
    setOff: (ms: number) => {
      clock.wallOffsetMs = Math.max(ms, 1 - epochMs);
      note(name, ms);
    },
  }));
  const ofServers = Object.entries({ nats, postgres }).map(([name, server]) => ({
    offMsMax: storeMsMax,
    setOff: (ms: number) => {
      server.clockOffsetMs = ms;
      note(name, ms);
    },
  }));
  return [...ofMachines, ...ofServers];
}

/** An error from seconds to decades. Some clocks begin anew in 1970. */
export function errorOf(clock: WrongClock, random: SeededRandom): number {
  if (random.next() < firstDayShare && clock.offMsMax === edgeMsMax) return -edgeMsMax;
  return Math.round((random.next() < 0.5 ? -1 : 1) * clock.offMsMax * random.next() ** 3);
}
