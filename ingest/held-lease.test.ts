import { expect, test } from 'vitest';
import { PostgresUnavailable } from '#common/stores/postgres.ts';
import { systemTime, type Time } from '#common/time.ts';
import { type Lease, LeaseLost } from './checkpoints.ts';
import { HeldLease } from './held-lease.ts';

const lease: Lease = { partition: 0, owner: 'ingest-0', epoch: 2, lastBatchNo: 0 };
const seconds = 6;

/** A lease whose clock a test moves, and a Postgres that renews while it is there. */
function held() {
  const clock = { ms: 0 };
  const postgres = { isThere: true, renewals: 0 };
  const lost: number[] = [];
  // Timers never fire by themselves; a pause ends at once.
  const time: Time = {
    ...systemTime,
    elapsed: () => clock.ms,
    every: () => systemTime.after(0, () => undefined),
    after: (_ms, callback) => systemTime.after(0, callback),
  };
  const checkpoints = {
    renew: async () => {
      if (!postgres.isThere) throw new PostgresUnavailable(new Error('gone'));
      postgres.renewals++;
    },
    release: async () => undefined,
  };
  const one = new HeldLease({ checkpoints, lease, seconds, time, askedAt: 0, onLost: () => lost.push(clock.ms) });
  return { one, clock, postgres, lost };
}

test('a lease that is renewed before its end stays held, however long that goes on', async () => {
  const { one, clock, lost } = held();
  for (let n = 1; n <= 10; n++) {
    clock.ms = n * (seconds * 1_000 - 1);
    await one.ensureHeld();
  }
  expect(one.isHeld).toBe(true);
  expect(lost).toEqual([]);
});

test('a lease that was not renewed before its end is lost, although Postgres would renew it', async () => {
  const { one, clock, postgres, lost } = held();
  clock.ms = seconds * 1_000;
  await expect(one.ensureHeld()).rejects.toThrow(LeaseLost);
  expect(postgres.renewals).toBe(1);
  expect(one.isLost).toBe(true);
  expect(lost).toEqual([clock.ms]);
  await expect(one.ensureHeld()).rejects.toThrow('held too long without a renewal');
});

test('an owner that waits for Postgres past the end of its lease has lost it when Postgres is back', async () => {
  const { one, clock, postgres } = held();
  postgres.isThere = false;
  clock.ms = seconds * 900;
  const waiting = one.ensureHeld();
  clock.ms = seconds * 2_000;
  postgres.isThere = true;
  await expect(waiting).rejects.toThrow(LeaseLost);
});
