/** Checks which records a simulated world forgives after a power loss. */
import { expect, test } from 'vitest';
import { DAY_MS } from '#common/durations.ts';
import { Scheduler } from './scheduler.ts';
import { World, type WorldShape } from './world.ts';

const shape: WorldShape = {
  machines: 1,
  slots: 1,
  partitions: 1,
  edgePartitions: 1,
  sync: 'after_answer',
  segmentBytes: 5_000,
  journalBytesMax: 100_000,
  turnMs: 300,
  recordsPerTurnMax: 1,
  logBytesMax: 1_000_000,
  isMatching: false,
  areClocksOff: false,
  ingests: 1,
  leaseSeconds: 5,
  batchRows: 50,
  bytesPerFence: 5_000,
};

test('when a machine loses power after days of sleep, only records answered just before the sleep or the loss may be lost', async () => {
  const scheduler = new Scheduler(1);
  const world = new World(scheduler, shape);
  world.isLoaded = false;
  const answered: Record<string, number> = {};
  const answer = (name: string) => {
    const number = world.answers.open('edge0/edge-0', scheduler.now, { kind: 'click', id: '', time: 0 });
    world.answers.settle(number, 'kept', scheduler.now);
    answered[name] = number;
  };
  const forgiven = () => {
    const { lost } = world.answers.judge([]);
    return Object.keys(answered).filter((name) => !lost.includes(answered[name] ?? -1));
  };
  await scheduler.run(1_000);
  answer('a second before the sleep');
  await scheduler.run(2_000);
  answer('just before the sleep');
  world.leap(3 * DAY_MS);
  await scheduler.run(scheduler.now + 1_000);
  answer('a second after the sleep');
  await scheduler.run(scheduler.now + 1_000);
  answer('just before the loss');
  for (const machine of world.edges) world.losePower(machine);
  expect(forgiven()).toEqual(['just before the sleep', 'just before the loss']);
  await scheduler.run(scheduler.now + 1_000);
  answer('a minute before a second loss');
  await scheduler.run(scheduler.now + 60_000);
  for (const machine of world.edges) world.losePower(machine);
  expect(forgiven()).toEqual(['just before the sleep', 'just before the loss']);
});
